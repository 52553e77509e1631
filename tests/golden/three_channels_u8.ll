; src u8 + 0, dst u8 + 0
; for 2: src += 192, dst += 192
;   for 3: src += 1, dst += 64
;     for 8: src += 24, dst += 8
;       for 8: src += 3, dst += 1
;         dst = u8(src)

; --- avx512
; # transpose of a0 2, a1 3, a2 64: the contiguous axes of the two sides differ
; tile(a1, 3) · tile(a2, 64)
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v3 = icmp eq i64 %part, 0
  br i1 %v3, label %v1, label %v2
v1:
  %v8 = icmp slt i64 0, 2
  br i1 %v8, label %v4, label %v5
v4:
  %v6 = phi i64 [ 0, %v1 ], [ %v7, %v4 ]
  %v9 = mul i64 %v6, 192
  %v10 = getelementptr i8, ptr %src, i64 %v9
  %v11 = mul i64 %v6, 192
  %v12 = getelementptr i8, ptr %dst, i64 %v11
  %v13 = load <64 x i8>, ptr %v10, align 1
  %v14 = getelementptr i8, ptr %v10, i64 64
  %v15 = load <64 x i8>, ptr %v14, align 1
  %v16 = getelementptr i8, ptr %v10, i64 128
  %v17 = load <64 x i8>, ptr %v16, align 1
  %v18 = shufflevector <64 x i8> %v13, <64 x i8> %v15, <64 x i32> <i32 0, i32 3, i32 6, i32 9, i32 12, i32 15, i32 18, i32 21, i32 24, i32 27, i32 30, i32 33, i32 36, i32 39, i32 42, i32 45, i32 48, i32 51, i32 54, i32 57, i32 60, i32 63, i32 66, i32 69, i32 72, i32 75, i32 78, i32 81, i32 84, i32 87, i32 90, i32 93, i32 96, i32 99, i32 102, i32 105, i32 108, i32 111, i32 114, i32 117, i32 120, i32 123, i32 126, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v19 = shufflevector <64 x i8> %v18, <64 x i8> %v17, <64 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31, i32 32, i32 33, i32 34, i32 35, i32 36, i32 37, i32 38, i32 39, i32 40, i32 41, i32 42, i32 65, i32 68, i32 71, i32 74, i32 77, i32 80, i32 83, i32 86, i32 89, i32 92, i32 95, i32 98, i32 101, i32 104, i32 107, i32 110, i32 113, i32 116, i32 119, i32 122, i32 125>
  %v20 = shufflevector <64 x i8> %v13, <64 x i8> %v15, <64 x i32> <i32 1, i32 4, i32 7, i32 10, i32 13, i32 16, i32 19, i32 22, i32 25, i32 28, i32 31, i32 34, i32 37, i32 40, i32 43, i32 46, i32 49, i32 52, i32 55, i32 58, i32 61, i32 64, i32 67, i32 70, i32 73, i32 76, i32 79, i32 82, i32 85, i32 88, i32 91, i32 94, i32 97, i32 100, i32 103, i32 106, i32 109, i32 112, i32 115, i32 118, i32 121, i32 124, i32 127, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v21 = shufflevector <64 x i8> %v20, <64 x i8> %v17, <64 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31, i32 32, i32 33, i32 34, i32 35, i32 36, i32 37, i32 38, i32 39, i32 40, i32 41, i32 42, i32 66, i32 69, i32 72, i32 75, i32 78, i32 81, i32 84, i32 87, i32 90, i32 93, i32 96, i32 99, i32 102, i32 105, i32 108, i32 111, i32 114, i32 117, i32 120, i32 123, i32 126>
  %v22 = shufflevector <64 x i8> %v13, <64 x i8> %v15, <64 x i32> <i32 2, i32 5, i32 8, i32 11, i32 14, i32 17, i32 20, i32 23, i32 26, i32 29, i32 32, i32 35, i32 38, i32 41, i32 44, i32 47, i32 50, i32 53, i32 56, i32 59, i32 62, i32 65, i32 68, i32 71, i32 74, i32 77, i32 80, i32 83, i32 86, i32 89, i32 92, i32 95, i32 98, i32 101, i32 104, i32 107, i32 110, i32 113, i32 116, i32 119, i32 122, i32 125, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v23 = shufflevector <64 x i8> %v22, <64 x i8> %v17, <64 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31, i32 32, i32 33, i32 34, i32 35, i32 36, i32 37, i32 38, i32 39, i32 40, i32 41, i32 64, i32 67, i32 70, i32 73, i32 76, i32 79, i32 82, i32 85, i32 88, i32 91, i32 94, i32 97, i32 100, i32 103, i32 106, i32 109, i32 112, i32 115, i32 118, i32 121, i32 124, i32 127>
  store <64 x i8> %v19, ptr %v12, align 1
  %v24 = getelementptr i8, ptr %v12, i64 64
  store <64 x i8> %v21, ptr %v24, align 1
  %v25 = getelementptr i8, ptr %v12, i64 128
  store <64 x i8> %v23, ptr %v25, align 1
  %v7 = add nuw nsw i64 %v6, 1
  %v26 = icmp slt i64 %v7, 2
  br i1 %v26, label %v4, label %v5
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
; # transpose of a0 2, a1 3, a2 64: the contiguous axes of the two sides differ
; tile(a1, 3) · tile(a2, 32)
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v3 = icmp eq i64 %part, 0
  br i1 %v3, label %v1, label %v2
v1:
  %v8 = icmp slt i64 0, 2
  br i1 %v8, label %v4, label %v5
v4:
  %v6 = phi i64 [ 0, %v1 ], [ %v7, %v14 ]
  %v9 = mul i64 %v6, 192
  %v10 = getelementptr i8, ptr %src, i64 %v9
  %v11 = mul i64 %v6, 192
  %v12 = getelementptr i8, ptr %dst, i64 %v11
  %v17 = icmp slt i64 0, 2
  br i1 %v17, label %v13, label %v14
v13:
  %v15 = phi i64 [ 0, %v4 ], [ %v16, %v13 ]
  %v18 = mul i64 %v15, 96
  %v19 = getelementptr i8, ptr %v10, i64 %v18
  %v20 = mul i64 %v15, 32
  %v21 = getelementptr i8, ptr %v12, i64 %v20
  %v22 = load <32 x i8>, ptr %v19, align 1
  %v23 = getelementptr i8, ptr %v19, i64 32
  %v24 = load <32 x i8>, ptr %v23, align 1
  %v25 = getelementptr i8, ptr %v19, i64 64
  %v26 = load <32 x i8>, ptr %v25, align 1
  %v27 = shufflevector <32 x i8> %v22, <32 x i8> %v24, <32 x i32> <i32 0, i32 3, i32 6, i32 9, i32 12, i32 15, i32 18, i32 21, i32 24, i32 27, i32 30, i32 33, i32 36, i32 39, i32 42, i32 45, i32 48, i32 51, i32 54, i32 57, i32 60, i32 63, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v28 = shufflevector <32 x i8> %v27, <32 x i8> %v26, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 34, i32 37, i32 40, i32 43, i32 46, i32 49, i32 52, i32 55, i32 58, i32 61>
  %v29 = shufflevector <32 x i8> %v22, <32 x i8> %v24, <32 x i32> <i32 1, i32 4, i32 7, i32 10, i32 13, i32 16, i32 19, i32 22, i32 25, i32 28, i32 31, i32 34, i32 37, i32 40, i32 43, i32 46, i32 49, i32 52, i32 55, i32 58, i32 61, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v30 = shufflevector <32 x i8> %v29, <32 x i8> %v26, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 32, i32 35, i32 38, i32 41, i32 44, i32 47, i32 50, i32 53, i32 56, i32 59, i32 62>
  %v31 = shufflevector <32 x i8> %v22, <32 x i8> %v24, <32 x i32> <i32 2, i32 5, i32 8, i32 11, i32 14, i32 17, i32 20, i32 23, i32 26, i32 29, i32 32, i32 35, i32 38, i32 41, i32 44, i32 47, i32 50, i32 53, i32 56, i32 59, i32 62, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v32 = shufflevector <32 x i8> %v31, <32 x i8> %v26, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 33, i32 36, i32 39, i32 42, i32 45, i32 48, i32 51, i32 54, i32 57, i32 60, i32 63>
  store <32 x i8> %v28, ptr %v21, align 1
  %v33 = getelementptr i8, ptr %v21, i64 64
  store <32 x i8> %v30, ptr %v33, align 1
  %v34 = getelementptr i8, ptr %v21, i64 128
  store <32 x i8> %v32, ptr %v34, align 1
  %v16 = add nuw nsw i64 %v15, 1
  %v35 = icmp slt i64 %v16, 2
  br i1 %v35, label %v13, label %v14
v14:
  %v7 = add nuw nsw i64 %v6, 1
  %v36 = icmp slt i64 %v7, 2
  br i1 %v36, label %v4, label %v5
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
; # transpose of a0 2, a1 3, a2 64: the contiguous axes of the two sides differ
; tile(a1, 3) · tile(a2, 16)
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v3 = icmp eq i64 %part, 0
  br i1 %v3, label %v1, label %v2
v1:
  %v8 = icmp slt i64 0, 2
  br i1 %v8, label %v4, label %v5
v4:
  %v6 = phi i64 [ 0, %v1 ], [ %v7, %v14 ]
  %v9 = mul i64 %v6, 192
  %v10 = getelementptr i8, ptr %src, i64 %v9
  %v11 = mul i64 %v6, 192
  %v12 = getelementptr i8, ptr %dst, i64 %v11
  %v17 = icmp slt i64 0, 4
  br i1 %v17, label %v13, label %v14
v13:
  %v15 = phi i64 [ 0, %v4 ], [ %v16, %v13 ]
  %v18 = mul i64 %v15, 48
  %v19 = getelementptr i8, ptr %v10, i64 %v18
  %v20 = mul i64 %v15, 16
  %v21 = getelementptr i8, ptr %v12, i64 %v20
  %v22 = load <48 x i8>, ptr %v19, align 1
  %v23 = shufflevector <48 x i8> %v22, <48 x i8> poison, <16 x i32> <i32 0, i32 3, i32 6, i32 9, i32 12, i32 15, i32 18, i32 21, i32 24, i32 27, i32 30, i32 33, i32 36, i32 39, i32 42, i32 45>
  store <16 x i8> %v23, ptr %v21, align 1
  %v24 = shufflevector <48 x i8> %v22, <48 x i8> poison, <16 x i32> <i32 1, i32 4, i32 7, i32 10, i32 13, i32 16, i32 19, i32 22, i32 25, i32 28, i32 31, i32 34, i32 37, i32 40, i32 43, i32 46>
  %v25 = getelementptr i8, ptr %v21, i64 64
  store <16 x i8> %v24, ptr %v25, align 1
  %v26 = shufflevector <48 x i8> %v22, <48 x i8> poison, <16 x i32> <i32 2, i32 5, i32 8, i32 11, i32 14, i32 17, i32 20, i32 23, i32 26, i32 29, i32 32, i32 35, i32 38, i32 41, i32 44, i32 47>
  %v27 = getelementptr i8, ptr %v21, i64 128
  store <16 x i8> %v26, ptr %v27, align 1
  %v16 = add nuw nsw i64 %v15, 1
  %v28 = icmp slt i64 %v16, 4
  br i1 %v28, label %v13, label %v14
v14:
  %v7 = add nuw nsw i64 %v6, 1
  %v29 = icmp slt i64 %v7, 2
  br i1 %v29, label %v4, label %v5
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
