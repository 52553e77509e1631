; src s8 + 0, dst s8 + 0
; for 1: src += 4096, dst += 4096
;   for 16: src += 256, dst += 256
;     for 4: src += 64, dst += 1
;       for 1: src += 64, dst += 4096
;         for 64: src += 1, dst += 4
;           dst = s8(src)

; --- avx512
; transpose (the contiguous axes of the two sides differ): tile 64 of 64 x 4 of 4; grid []; inner axes [0]
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v3 = icmp eq i64 %part, 0
  br i1 %v3, label %v1, label %v2
v1:
  %v8 = icmp slt i64 0, 16
  br i1 %v8, label %v4, label %v5
v4:
  %v6 = phi i64 [ 0, %v1 ], [ %v7, %v29 ]
  %v9 = mul i64 %v6, 256
  %v10 = getelementptr i8, ptr %src, i64 %v9
  %v11 = mul i64 %v6, 256
  %v12 = getelementptr i8, ptr %dst, i64 %v11
  %v13 = load <64 x i8>, ptr %v10, align 1
  %v14 = getelementptr i8, ptr %v10, i64 64
  %v15 = load <64 x i8>, ptr %v14, align 1
  %v16 = getelementptr i8, ptr %v10, i64 128
  %v17 = load <64 x i8>, ptr %v16, align 1
  %v18 = getelementptr i8, ptr %v10, i64 192
  %v19 = load <64 x i8>, ptr %v18, align 1
  %v20 = shufflevector <64 x i8> %v13, <64 x i8> %v15, <64 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31, i32 64, i32 65, i32 66, i32 67, i32 68, i32 69, i32 70, i32 71, i32 72, i32 73, i32 74, i32 75, i32 76, i32 77, i32 78, i32 79, i32 80, i32 81, i32 82, i32 83, i32 84, i32 85, i32 86, i32 87, i32 88, i32 89, i32 90, i32 91, i32 92, i32 93, i32 94, i32 95>
  %v21 = shufflevector <64 x i8> %v13, <64 x i8> %v15, <64 x i32> <i32 32, i32 33, i32 34, i32 35, i32 36, i32 37, i32 38, i32 39, i32 40, i32 41, i32 42, i32 43, i32 44, i32 45, i32 46, i32 47, i32 48, i32 49, i32 50, i32 51, i32 52, i32 53, i32 54, i32 55, i32 56, i32 57, i32 58, i32 59, i32 60, i32 61, i32 62, i32 63, i32 96, i32 97, i32 98, i32 99, i32 100, i32 101, i32 102, i32 103, i32 104, i32 105, i32 106, i32 107, i32 108, i32 109, i32 110, i32 111, i32 112, i32 113, i32 114, i32 115, i32 116, i32 117, i32 118, i32 119, i32 120, i32 121, i32 122, i32 123, i32 124, i32 125, i32 126, i32 127>
  %v22 = shufflevector <64 x i8> %v17, <64 x i8> %v19, <64 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31, i32 64, i32 65, i32 66, i32 67, i32 68, i32 69, i32 70, i32 71, i32 72, i32 73, i32 74, i32 75, i32 76, i32 77, i32 78, i32 79, i32 80, i32 81, i32 82, i32 83, i32 84, i32 85, i32 86, i32 87, i32 88, i32 89, i32 90, i32 91, i32 92, i32 93, i32 94, i32 95>
  %v23 = shufflevector <64 x i8> %v17, <64 x i8> %v19, <64 x i32> <i32 32, i32 33, i32 34, i32 35, i32 36, i32 37, i32 38, i32 39, i32 40, i32 41, i32 42, i32 43, i32 44, i32 45, i32 46, i32 47, i32 48, i32 49, i32 50, i32 51, i32 52, i32 53, i32 54, i32 55, i32 56, i32 57, i32 58, i32 59, i32 60, i32 61, i32 62, i32 63, i32 96, i32 97, i32 98, i32 99, i32 100, i32 101, i32 102, i32 103, i32 104, i32 105, i32 106, i32 107, i32 108, i32 109, i32 110, i32 111, i32 112, i32 113, i32 114, i32 115, i32 116, i32 117, i32 118, i32 119, i32 120, i32 121, i32 122, i32 123, i32 124, i32 125, i32 126, i32 127>
  br label %v24
v24:
  %v25 = shufflevector <64 x i8> %v20, <64 x i8> %v22, <64 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 64, i32 65, i32 66, i32 67, i32 68, i32 69, i32 70, i32 71, i32 72, i32 73, i32 74, i32 75, i32 76, i32 77, i32 78, i32 79, i32 32, i32 33, i32 34, i32 35, i32 36, i32 37, i32 38, i32 39, i32 40, i32 41, i32 42, i32 43, i32 44, i32 45, i32 46, i32 47, i32 96, i32 97, i32 98, i32 99, i32 100, i32 101, i32 102, i32 103, i32 104, i32 105, i32 106, i32 107, i32 108, i32 109, i32 110, i32 111>
  %v26 = shufflevector <64 x i8> %v20, <64 x i8> %v22, <64 x i32> <i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31, i32 80, i32 81, i32 82, i32 83, i32 84, i32 85, i32 86, i32 87, i32 88, i32 89, i32 90, i32 91, i32 92, i32 93, i32 94, i32 95, i32 48, i32 49, i32 50, i32 51, i32 52, i32 53, i32 54, i32 55, i32 56, i32 57, i32 58, i32 59, i32 60, i32 61, i32 62, i32 63, i32 112, i32 113, i32 114, i32 115, i32 116, i32 117, i32 118, i32 119, i32 120, i32 121, i32 122, i32 123, i32 124, i32 125, i32 126, i32 127>
  %v27 = shufflevector <64 x i8> %v21, <64 x i8> %v23, <64 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 64, i32 65, i32 66, i32 67, i32 68, i32 69, i32 70, i32 71, i32 72, i32 73, i32 74, i32 75, i32 76, i32 77, i32 78, i32 79, i32 32, i32 33, i32 34, i32 35, i32 36, i32 37, i32 38, i32 39, i32 40, i32 41, i32 42, i32 43, i32 44, i32 45, i32 46, i32 47, i32 96, i32 97, i32 98, i32 99, i32 100, i32 101, i32 102, i32 103, i32 104, i32 105, i32 106, i32 107, i32 108, i32 109, i32 110, i32 111>
  %v28 = shufflevector <64 x i8> %v21, <64 x i8> %v23, <64 x i32> <i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31, i32 80, i32 81, i32 82, i32 83, i32 84, i32 85, i32 86, i32 87, i32 88, i32 89, i32 90, i32 91, i32 92, i32 93, i32 94, i32 95, i32 48, i32 49, i32 50, i32 51, i32 52, i32 53, i32 54, i32 55, i32 56, i32 57, i32 58, i32 59, i32 60, i32 61, i32 62, i32 63, i32 112, i32 113, i32 114, i32 115, i32 116, i32 117, i32 118, i32 119, i32 120, i32 121, i32 122, i32 123, i32 124, i32 125, i32 126, i32 127>
  br label %v29
v29:
  %v30 = shufflevector <64 x i8> %v25, <64 x i8> %v25, <64 x i32> <i32 0, i32 32, i32 16, i32 48, i32 1, i32 33, i32 17, i32 49, i32 2, i32 34, i32 18, i32 50, i32 3, i32 35, i32 19, i32 51, i32 4, i32 36, i32 20, i32 52, i32 5, i32 37, i32 21, i32 53, i32 6, i32 38, i32 22, i32 54, i32 7, i32 39, i32 23, i32 55, i32 8, i32 40, i32 24, i32 56, i32 9, i32 41, i32 25, i32 57, i32 10, i32 42, i32 26, i32 58, i32 11, i32 43, i32 27, i32 59, i32 12, i32 44, i32 28, i32 60, i32 13, i32 45, i32 29, i32 61, i32 14, i32 46, i32 30, i32 62, i32 15, i32 47, i32 31, i32 63>
  %v31 = shufflevector <64 x i8> %v27, <64 x i8> %v27, <64 x i32> <i32 0, i32 32, i32 16, i32 48, i32 1, i32 33, i32 17, i32 49, i32 2, i32 34, i32 18, i32 50, i32 3, i32 35, i32 19, i32 51, i32 4, i32 36, i32 20, i32 52, i32 5, i32 37, i32 21, i32 53, i32 6, i32 38, i32 22, i32 54, i32 7, i32 39, i32 23, i32 55, i32 8, i32 40, i32 24, i32 56, i32 9, i32 41, i32 25, i32 57, i32 10, i32 42, i32 26, i32 58, i32 11, i32 43, i32 27, i32 59, i32 12, i32 44, i32 28, i32 60, i32 13, i32 45, i32 29, i32 61, i32 14, i32 46, i32 30, i32 62, i32 15, i32 47, i32 31, i32 63>
  %v32 = shufflevector <64 x i8> %v26, <64 x i8> %v26, <64 x i32> <i32 0, i32 32, i32 16, i32 48, i32 1, i32 33, i32 17, i32 49, i32 2, i32 34, i32 18, i32 50, i32 3, i32 35, i32 19, i32 51, i32 4, i32 36, i32 20, i32 52, i32 5, i32 37, i32 21, i32 53, i32 6, i32 38, i32 22, i32 54, i32 7, i32 39, i32 23, i32 55, i32 8, i32 40, i32 24, i32 56, i32 9, i32 41, i32 25, i32 57, i32 10, i32 42, i32 26, i32 58, i32 11, i32 43, i32 27, i32 59, i32 12, i32 44, i32 28, i32 60, i32 13, i32 45, i32 29, i32 61, i32 14, i32 46, i32 30, i32 62, i32 15, i32 47, i32 31, i32 63>
  %v33 = shufflevector <64 x i8> %v28, <64 x i8> %v28, <64 x i32> <i32 0, i32 32, i32 16, i32 48, i32 1, i32 33, i32 17, i32 49, i32 2, i32 34, i32 18, i32 50, i32 3, i32 35, i32 19, i32 51, i32 4, i32 36, i32 20, i32 52, i32 5, i32 37, i32 21, i32 53, i32 6, i32 38, i32 22, i32 54, i32 7, i32 39, i32 23, i32 55, i32 8, i32 40, i32 24, i32 56, i32 9, i32 41, i32 25, i32 57, i32 10, i32 42, i32 26, i32 58, i32 11, i32 43, i32 27, i32 59, i32 12, i32 44, i32 28, i32 60, i32 13, i32 45, i32 29, i32 61, i32 14, i32 46, i32 30, i32 62, i32 15, i32 47, i32 31, i32 63>
  store <64 x i8> %v30, ptr %v12, align 1
  %v34 = getelementptr i8, ptr %v12, i64 64
  store <64 x i8> %v32, ptr %v34, align 1
  %v35 = getelementptr i8, ptr %v12, i64 128
  store <64 x i8> %v31, ptr %v35, align 1
  %v36 = getelementptr i8, ptr %v12, i64 192
  store <64 x i8> %v33, ptr %v36, align 1
  %v7 = add nuw nsw i64 %v6, 1
  %v37 = icmp slt i64 %v7, 16
  br i1 %v37, label %v4, label %v5
v5:
  br label %v2
v2:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
!0 = !{i32 1}

; --- avx2
; transpose (the contiguous axes of the two sides differ): tile 32 of 64 x 4 of 4; grid []; inner axes [0, 1]
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v3 = icmp eq i64 %part, 0
  br i1 %v3, label %v1, label %v2
v1:
  %v8 = icmp slt i64 0, 16
  br i1 %v8, label %v4, label %v5
v4:
  %v6 = phi i64 [ 0, %v1 ], [ %v7, %v14 ]
  %v9 = mul i64 %v6, 256
  %v10 = getelementptr i8, ptr %src, i64 %v9
  %v11 = mul i64 %v6, 256
  %v12 = getelementptr i8, ptr %dst, i64 %v11
  %v17 = icmp slt i64 0, 2
  br i1 %v17, label %v13, label %v14
v13:
  %v15 = phi i64 [ 0, %v4 ], [ %v16, %v38 ]
  %v18 = mul i64 %v15, 32
  %v19 = getelementptr i8, ptr %v10, i64 %v18
  %v20 = mul i64 %v15, 128
  %v21 = getelementptr i8, ptr %v12, i64 %v20
  %v22 = load <32 x i8>, ptr %v19, align 1
  %v23 = getelementptr i8, ptr %v19, i64 64
  %v24 = load <32 x i8>, ptr %v23, align 1
  %v25 = getelementptr i8, ptr %v19, i64 128
  %v26 = load <32 x i8>, ptr %v25, align 1
  %v27 = getelementptr i8, ptr %v19, i64 192
  %v28 = load <32 x i8>, ptr %v27, align 1
  %v29 = shufflevector <32 x i8> %v22, <32 x i8> %v24, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 32, i32 33, i32 34, i32 35, i32 36, i32 37, i32 38, i32 39, i32 40, i32 41, i32 42, i32 43, i32 44, i32 45, i32 46, i32 47>
  %v30 = shufflevector <32 x i8> %v22, <32 x i8> %v24, <32 x i32> <i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31, i32 48, i32 49, i32 50, i32 51, i32 52, i32 53, i32 54, i32 55, i32 56, i32 57, i32 58, i32 59, i32 60, i32 61, i32 62, i32 63>
  %v31 = shufflevector <32 x i8> %v26, <32 x i8> %v28, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 32, i32 33, i32 34, i32 35, i32 36, i32 37, i32 38, i32 39, i32 40, i32 41, i32 42, i32 43, i32 44, i32 45, i32 46, i32 47>
  %v32 = shufflevector <32 x i8> %v26, <32 x i8> %v28, <32 x i32> <i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31, i32 48, i32 49, i32 50, i32 51, i32 52, i32 53, i32 54, i32 55, i32 56, i32 57, i32 58, i32 59, i32 60, i32 61, i32 62, i32 63>
  br label %v33
v33:
  %v34 = shufflevector <32 x i8> %v29, <32 x i8> %v31, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 32, i32 33, i32 34, i32 35, i32 36, i32 37, i32 38, i32 39, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 48, i32 49, i32 50, i32 51, i32 52, i32 53, i32 54, i32 55>
  %v35 = shufflevector <32 x i8> %v29, <32 x i8> %v31, <32 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 40, i32 41, i32 42, i32 43, i32 44, i32 45, i32 46, i32 47, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31, i32 56, i32 57, i32 58, i32 59, i32 60, i32 61, i32 62, i32 63>
  %v36 = shufflevector <32 x i8> %v30, <32 x i8> %v32, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 32, i32 33, i32 34, i32 35, i32 36, i32 37, i32 38, i32 39, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 48, i32 49, i32 50, i32 51, i32 52, i32 53, i32 54, i32 55>
  %v37 = shufflevector <32 x i8> %v30, <32 x i8> %v32, <32 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 40, i32 41, i32 42, i32 43, i32 44, i32 45, i32 46, i32 47, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31, i32 56, i32 57, i32 58, i32 59, i32 60, i32 61, i32 62, i32 63>
  br label %v38
v38:
  %v39 = shufflevector <32 x i8> %v34, <32 x i8> %v34, <32 x i32> <i32 0, i32 16, i32 8, i32 24, i32 1, i32 17, i32 9, i32 25, i32 2, i32 18, i32 10, i32 26, i32 3, i32 19, i32 11, i32 27, i32 4, i32 20, i32 12, i32 28, i32 5, i32 21, i32 13, i32 29, i32 6, i32 22, i32 14, i32 30, i32 7, i32 23, i32 15, i32 31>
  %v40 = shufflevector <32 x i8> %v36, <32 x i8> %v36, <32 x i32> <i32 0, i32 16, i32 8, i32 24, i32 1, i32 17, i32 9, i32 25, i32 2, i32 18, i32 10, i32 26, i32 3, i32 19, i32 11, i32 27, i32 4, i32 20, i32 12, i32 28, i32 5, i32 21, i32 13, i32 29, i32 6, i32 22, i32 14, i32 30, i32 7, i32 23, i32 15, i32 31>
  %v41 = shufflevector <32 x i8> %v35, <32 x i8> %v35, <32 x i32> <i32 0, i32 16, i32 8, i32 24, i32 1, i32 17, i32 9, i32 25, i32 2, i32 18, i32 10, i32 26, i32 3, i32 19, i32 11, i32 27, i32 4, i32 20, i32 12, i32 28, i32 5, i32 21, i32 13, i32 29, i32 6, i32 22, i32 14, i32 30, i32 7, i32 23, i32 15, i32 31>
  %v42 = shufflevector <32 x i8> %v37, <32 x i8> %v37, <32 x i32> <i32 0, i32 16, i32 8, i32 24, i32 1, i32 17, i32 9, i32 25, i32 2, i32 18, i32 10, i32 26, i32 3, i32 19, i32 11, i32 27, i32 4, i32 20, i32 12, i32 28, i32 5, i32 21, i32 13, i32 29, i32 6, i32 22, i32 14, i32 30, i32 7, i32 23, i32 15, i32 31>
  store <32 x i8> %v39, ptr %v21, align 1
  %v43 = getelementptr i8, ptr %v21, i64 32
  store <32 x i8> %v41, ptr %v43, align 1
  %v44 = getelementptr i8, ptr %v21, i64 64
  store <32 x i8> %v40, ptr %v44, align 1
  %v45 = getelementptr i8, ptr %v21, i64 96
  store <32 x i8> %v42, ptr %v45, align 1
  %v16 = add nuw nsw i64 %v15, 1
  %v46 = icmp slt i64 %v16, 2
  br i1 %v46, label %v13, label %v14
v14:
  %v7 = add nuw nsw i64 %v6, 1
  %v47 = icmp slt i64 %v7, 16
  br i1 %v47, label %v4, label %v5
v5:
  br label %v2
v2:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
!0 = !{i32 1}

; --- neon
; transpose (the contiguous axes of the two sides differ): tile 16 of 64 x 4 of 4; grid []; inner axes [0, 1]
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v3 = icmp eq i64 %part, 0
  br i1 %v3, label %v1, label %v2
v1:
  %v8 = icmp slt i64 0, 16
  br i1 %v8, label %v4, label %v5
v4:
  %v6 = phi i64 [ 0, %v1 ], [ %v7, %v14 ]
  %v9 = mul i64 %v6, 256
  %v10 = getelementptr i8, ptr %src, i64 %v9
  %v11 = mul i64 %v6, 256
  %v12 = getelementptr i8, ptr %dst, i64 %v11
  %v17 = icmp slt i64 0, 4
  br i1 %v17, label %v13, label %v14
v13:
  %v15 = phi i64 [ 0, %v4 ], [ %v16, %v38 ]
  %v18 = mul i64 %v15, 16
  %v19 = getelementptr i8, ptr %v10, i64 %v18
  %v20 = mul i64 %v15, 64
  %v21 = getelementptr i8, ptr %v12, i64 %v20
  %v22 = load <16 x i8>, ptr %v19, align 1
  %v23 = getelementptr i8, ptr %v19, i64 64
  %v24 = load <16 x i8>, ptr %v23, align 1
  %v25 = getelementptr i8, ptr %v19, i64 128
  %v26 = load <16 x i8>, ptr %v25, align 1
  %v27 = getelementptr i8, ptr %v19, i64 192
  %v28 = load <16 x i8>, ptr %v27, align 1
  %v29 = shufflevector <16 x i8> %v22, <16 x i8> %v24, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %v30 = shufflevector <16 x i8> %v22, <16 x i8> %v24, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %v31 = shufflevector <16 x i8> %v26, <16 x i8> %v28, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %v32 = shufflevector <16 x i8> %v26, <16 x i8> %v28, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  br label %v33
v33:
  %v34 = shufflevector <16 x i8> %v29, <16 x i8> %v31, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %v35 = shufflevector <16 x i8> %v29, <16 x i8> %v31, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  %v36 = shufflevector <16 x i8> %v30, <16 x i8> %v32, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %v37 = shufflevector <16 x i8> %v30, <16 x i8> %v32, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  br label %v38
v38:
  %v39 = shufflevector <16 x i8> %v34, <16 x i8> %v34, <16 x i32> <i32 0, i32 8, i32 4, i32 12, i32 1, i32 9, i32 5, i32 13, i32 2, i32 10, i32 6, i32 14, i32 3, i32 11, i32 7, i32 15>
  %v40 = shufflevector <16 x i8> %v36, <16 x i8> %v36, <16 x i32> <i32 0, i32 8, i32 4, i32 12, i32 1, i32 9, i32 5, i32 13, i32 2, i32 10, i32 6, i32 14, i32 3, i32 11, i32 7, i32 15>
  %v41 = shufflevector <16 x i8> %v35, <16 x i8> %v35, <16 x i32> <i32 0, i32 8, i32 4, i32 12, i32 1, i32 9, i32 5, i32 13, i32 2, i32 10, i32 6, i32 14, i32 3, i32 11, i32 7, i32 15>
  %v42 = shufflevector <16 x i8> %v37, <16 x i8> %v37, <16 x i32> <i32 0, i32 8, i32 4, i32 12, i32 1, i32 9, i32 5, i32 13, i32 2, i32 10, i32 6, i32 14, i32 3, i32 11, i32 7, i32 15>
  store <16 x i8> %v39, ptr %v21, align 1
  %v43 = getelementptr i8, ptr %v21, i64 16
  store <16 x i8> %v41, ptr %v43, align 1
  %v44 = getelementptr i8, ptr %v21, i64 32
  store <16 x i8> %v40, ptr %v44, align 1
  %v45 = getelementptr i8, ptr %v21, i64 48
  store <16 x i8> %v42, ptr %v45, align 1
  %v16 = add nuw nsw i64 %v15, 1
  %v46 = icmp slt i64 %v16, 4
  br i1 %v46, label %v13, label %v14
v14:
  %v7 = add nuw nsw i64 %v6, 1
  %v47 = icmp slt i64 %v7, 16
  br i1 %v47, label %v4, label %v5
v5:
  br label %v2
v2:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
!0 = !{i32 1}
