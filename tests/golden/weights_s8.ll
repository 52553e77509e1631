; src s8 + 0, dst s8 + 0
; for 1: src += 4096, dst += 4096
;   for 16: src += 256, dst += 256
;     for 4: src += 64, dst += 1
;       for 1: src += 64, dst += 4096
;         for 64: src += 1, dst += 4
;           dst = s8(src)

; --- avx512
; # transpose of a0 16, a1 64, a2 4: the contiguous axes of the two sides differ
; tile(a1, 64) · tile(a2, 4)
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v3 = icmp eq i64 %part, 0
  br i1 %v3, label %v1, label %v2
v1:
  %v8 = icmp slt i64 0, 16
  br i1 %v8, label %v4, label %v5
v4:
  %v6 = phi i64 [ 0, %v1 ], [ %v7, %v36 ]
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
  %v20 = bitcast <64 x i8> %v13 to <8 x i64>
  %v21 = bitcast <64 x i8> %v15 to <8 x i64>
  %v22 = shufflevector <8 x i64> %v20, <8 x i64> %v21, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 8, i32 9, i32 10, i32 11>
  %v23 = bitcast <8 x i64> %v22 to <64 x i8>
  %v24 = bitcast <64 x i8> %v13 to <8 x i64>
  %v25 = bitcast <64 x i8> %v15 to <8 x i64>
  %v26 = shufflevector <8 x i64> %v24, <8 x i64> %v25, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 12, i32 13, i32 14, i32 15>
  %v27 = bitcast <8 x i64> %v26 to <64 x i8>
  %v28 = bitcast <64 x i8> %v17 to <8 x i64>
  %v29 = bitcast <64 x i8> %v19 to <8 x i64>
  %v30 = shufflevector <8 x i64> %v28, <8 x i64> %v29, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 8, i32 9, i32 10, i32 11>
  %v31 = bitcast <8 x i64> %v30 to <64 x i8>
  %v32 = bitcast <64 x i8> %v17 to <8 x i64>
  %v33 = bitcast <64 x i8> %v19 to <8 x i64>
  %v34 = shufflevector <8 x i64> %v32, <8 x i64> %v33, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 12, i32 13, i32 14, i32 15>
  %v35 = bitcast <8 x i64> %v34 to <64 x i8>
  br label %v36
v36:
  %v37 = bitcast <64 x i8> %v23 to <8 x i64>
  %v38 = bitcast <64 x i8> %v31 to <8 x i64>
  %v39 = shufflevector <8 x i64> %v37, <8 x i64> %v38, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v40 = bitcast <8 x i64> %v39 to <64 x i8>
  %v41 = bitcast <64 x i8> %v23 to <8 x i64>
  %v42 = bitcast <64 x i8> %v31 to <8 x i64>
  %v43 = shufflevector <8 x i64> %v41, <8 x i64> %v42, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v44 = bitcast <8 x i64> %v43 to <64 x i8>
  %v45 = bitcast <64 x i8> %v27 to <8 x i64>
  %v46 = bitcast <64 x i8> %v35 to <8 x i64>
  %v47 = shufflevector <8 x i64> %v45, <8 x i64> %v46, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v48 = bitcast <8 x i64> %v47 to <64 x i8>
  %v49 = bitcast <64 x i8> %v27 to <8 x i64>
  %v50 = bitcast <64 x i8> %v35 to <8 x i64>
  %v51 = shufflevector <8 x i64> %v49, <8 x i64> %v50, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v52 = bitcast <8 x i64> %v51 to <64 x i8>
  %v53 = shufflevector <64 x i8> %v40, <64 x i8> %v40, <64 x i32> <i32 0, i32 32, i32 16, i32 48, i32 1, i32 33, i32 17, i32 49, i32 2, i32 34, i32 18, i32 50, i32 3, i32 35, i32 19, i32 51, i32 4, i32 36, i32 20, i32 52, i32 5, i32 37, i32 21, i32 53, i32 6, i32 38, i32 22, i32 54, i32 7, i32 39, i32 23, i32 55, i32 8, i32 40, i32 24, i32 56, i32 9, i32 41, i32 25, i32 57, i32 10, i32 42, i32 26, i32 58, i32 11, i32 43, i32 27, i32 59, i32 12, i32 44, i32 28, i32 60, i32 13, i32 45, i32 29, i32 61, i32 14, i32 46, i32 30, i32 62, i32 15, i32 47, i32 31, i32 63>
  %v54 = shufflevector <64 x i8> %v48, <64 x i8> %v48, <64 x i32> <i32 0, i32 32, i32 16, i32 48, i32 1, i32 33, i32 17, i32 49, i32 2, i32 34, i32 18, i32 50, i32 3, i32 35, i32 19, i32 51, i32 4, i32 36, i32 20, i32 52, i32 5, i32 37, i32 21, i32 53, i32 6, i32 38, i32 22, i32 54, i32 7, i32 39, i32 23, i32 55, i32 8, i32 40, i32 24, i32 56, i32 9, i32 41, i32 25, i32 57, i32 10, i32 42, i32 26, i32 58, i32 11, i32 43, i32 27, i32 59, i32 12, i32 44, i32 28, i32 60, i32 13, i32 45, i32 29, i32 61, i32 14, i32 46, i32 30, i32 62, i32 15, i32 47, i32 31, i32 63>
  %v55 = shufflevector <64 x i8> %v44, <64 x i8> %v44, <64 x i32> <i32 0, i32 32, i32 16, i32 48, i32 1, i32 33, i32 17, i32 49, i32 2, i32 34, i32 18, i32 50, i32 3, i32 35, i32 19, i32 51, i32 4, i32 36, i32 20, i32 52, i32 5, i32 37, i32 21, i32 53, i32 6, i32 38, i32 22, i32 54, i32 7, i32 39, i32 23, i32 55, i32 8, i32 40, i32 24, i32 56, i32 9, i32 41, i32 25, i32 57, i32 10, i32 42, i32 26, i32 58, i32 11, i32 43, i32 27, i32 59, i32 12, i32 44, i32 28, i32 60, i32 13, i32 45, i32 29, i32 61, i32 14, i32 46, i32 30, i32 62, i32 15, i32 47, i32 31, i32 63>
  %v56 = shufflevector <64 x i8> %v52, <64 x i8> %v52, <64 x i32> <i32 0, i32 32, i32 16, i32 48, i32 1, i32 33, i32 17, i32 49, i32 2, i32 34, i32 18, i32 50, i32 3, i32 35, i32 19, i32 51, i32 4, i32 36, i32 20, i32 52, i32 5, i32 37, i32 21, i32 53, i32 6, i32 38, i32 22, i32 54, i32 7, i32 39, i32 23, i32 55, i32 8, i32 40, i32 24, i32 56, i32 9, i32 41, i32 25, i32 57, i32 10, i32 42, i32 26, i32 58, i32 11, i32 43, i32 27, i32 59, i32 12, i32 44, i32 28, i32 60, i32 13, i32 45, i32 29, i32 61, i32 14, i32 46, i32 30, i32 62, i32 15, i32 47, i32 31, i32 63>
  store <64 x i8> %v53, ptr %v12, align 1
  %v57 = getelementptr i8, ptr %v12, i64 64
  store <64 x i8> %v55, ptr %v57, align 1
  %v58 = getelementptr i8, ptr %v12, i64 128
  store <64 x i8> %v54, ptr %v58, align 1
  %v59 = getelementptr i8, ptr %v12, i64 192
  store <64 x i8> %v56, ptr %v59, align 1
  %v7 = add nuw nsw i64 %v6, 1
  %v60 = icmp slt i64 %v7, 16
  br i1 %v60, label %v4, label %v5
v5:
  br label %v2
v2:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
@cuts = private constant [1 x ptr] [ptr blockaddress(@restride, %v36)], section "llvm.metadata"
!0 = !{i32 1}

; --- avx2
; # transpose of a0 16, a1 64, a2 4: the contiguous axes of the two sides differ
; tile(a1, 32) · tile(a2, 4)
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
  %v15 = phi i64 [ 0, %v4 ], [ %v16, %v45 ]
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
  %v29 = bitcast <32 x i8> %v22 to <4 x i64>
  %v30 = bitcast <32 x i8> %v24 to <4 x i64>
  %v31 = shufflevector <4 x i64> %v29, <4 x i64> %v30, <4 x i32> <i32 0, i32 1, i32 4, i32 5>
  %v32 = bitcast <4 x i64> %v31 to <32 x i8>
  %v33 = bitcast <32 x i8> %v22 to <4 x i64>
  %v34 = bitcast <32 x i8> %v24 to <4 x i64>
  %v35 = shufflevector <4 x i64> %v33, <4 x i64> %v34, <4 x i32> <i32 2, i32 3, i32 6, i32 7>
  %v36 = bitcast <4 x i64> %v35 to <32 x i8>
  %v37 = bitcast <32 x i8> %v26 to <4 x i64>
  %v38 = bitcast <32 x i8> %v28 to <4 x i64>
  %v39 = shufflevector <4 x i64> %v37, <4 x i64> %v38, <4 x i32> <i32 0, i32 1, i32 4, i32 5>
  %v40 = bitcast <4 x i64> %v39 to <32 x i8>
  %v41 = bitcast <32 x i8> %v26 to <4 x i64>
  %v42 = bitcast <32 x i8> %v28 to <4 x i64>
  %v43 = shufflevector <4 x i64> %v41, <4 x i64> %v42, <4 x i32> <i32 2, i32 3, i32 6, i32 7>
  %v44 = bitcast <4 x i64> %v43 to <32 x i8>
  br label %v45
v45:
  %v46 = bitcast <32 x i8> %v32 to <4 x i64>
  %v47 = bitcast <32 x i8> %v40 to <4 x i64>
  %v48 = shufflevector <4 x i64> %v46, <4 x i64> %v47, <4 x i32> <i32 0, i32 4, i32 2, i32 6>
  %v49 = bitcast <4 x i64> %v48 to <32 x i8>
  %v50 = bitcast <32 x i8> %v32 to <4 x i64>
  %v51 = bitcast <32 x i8> %v40 to <4 x i64>
  %v52 = shufflevector <4 x i64> %v50, <4 x i64> %v51, <4 x i32> <i32 1, i32 5, i32 3, i32 7>
  %v53 = bitcast <4 x i64> %v52 to <32 x i8>
  %v54 = bitcast <32 x i8> %v36 to <4 x i64>
  %v55 = bitcast <32 x i8> %v44 to <4 x i64>
  %v56 = shufflevector <4 x i64> %v54, <4 x i64> %v55, <4 x i32> <i32 0, i32 4, i32 2, i32 6>
  %v57 = bitcast <4 x i64> %v56 to <32 x i8>
  %v58 = bitcast <32 x i8> %v36 to <4 x i64>
  %v59 = bitcast <32 x i8> %v44 to <4 x i64>
  %v60 = shufflevector <4 x i64> %v58, <4 x i64> %v59, <4 x i32> <i32 1, i32 5, i32 3, i32 7>
  %v61 = bitcast <4 x i64> %v60 to <32 x i8>
  %v62 = shufflevector <32 x i8> %v49, <32 x i8> %v49, <32 x i32> <i32 0, i32 16, i32 8, i32 24, i32 1, i32 17, i32 9, i32 25, i32 2, i32 18, i32 10, i32 26, i32 3, i32 19, i32 11, i32 27, i32 4, i32 20, i32 12, i32 28, i32 5, i32 21, i32 13, i32 29, i32 6, i32 22, i32 14, i32 30, i32 7, i32 23, i32 15, i32 31>
  %v63 = shufflevector <32 x i8> %v57, <32 x i8> %v57, <32 x i32> <i32 0, i32 16, i32 8, i32 24, i32 1, i32 17, i32 9, i32 25, i32 2, i32 18, i32 10, i32 26, i32 3, i32 19, i32 11, i32 27, i32 4, i32 20, i32 12, i32 28, i32 5, i32 21, i32 13, i32 29, i32 6, i32 22, i32 14, i32 30, i32 7, i32 23, i32 15, i32 31>
  %v64 = shufflevector <32 x i8> %v53, <32 x i8> %v53, <32 x i32> <i32 0, i32 16, i32 8, i32 24, i32 1, i32 17, i32 9, i32 25, i32 2, i32 18, i32 10, i32 26, i32 3, i32 19, i32 11, i32 27, i32 4, i32 20, i32 12, i32 28, i32 5, i32 21, i32 13, i32 29, i32 6, i32 22, i32 14, i32 30, i32 7, i32 23, i32 15, i32 31>
  %v65 = shufflevector <32 x i8> %v61, <32 x i8> %v61, <32 x i32> <i32 0, i32 16, i32 8, i32 24, i32 1, i32 17, i32 9, i32 25, i32 2, i32 18, i32 10, i32 26, i32 3, i32 19, i32 11, i32 27, i32 4, i32 20, i32 12, i32 28, i32 5, i32 21, i32 13, i32 29, i32 6, i32 22, i32 14, i32 30, i32 7, i32 23, i32 15, i32 31>
  store <32 x i8> %v62, ptr %v21, align 1
  %v66 = getelementptr i8, ptr %v21, i64 32
  store <32 x i8> %v64, ptr %v66, align 1
  %v67 = getelementptr i8, ptr %v21, i64 64
  store <32 x i8> %v63, ptr %v67, align 1
  %v68 = getelementptr i8, ptr %v21, i64 96
  store <32 x i8> %v65, ptr %v68, align 1
  %v16 = add nuw nsw i64 %v15, 1
  %v69 = icmp slt i64 %v16, 2
  br i1 %v69, label %v13, label %v14
v14:
  %v7 = add nuw nsw i64 %v6, 1
  %v70 = icmp slt i64 %v7, 16
  br i1 %v70, label %v4, label %v5
v5:
  br label %v2
v2:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
@cuts = private constant [1 x ptr] [ptr blockaddress(@restride, %v45)], section "llvm.metadata"
!0 = !{i32 1}

; --- neon
; # transpose of a0 16, a1 64, a2 4: the contiguous axes of the two sides differ
; tile(a1, 16) · tile(a2, 4)
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
  %v15 = phi i64 [ 0, %v4 ], [ %v16, %v45 ]
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
  %v29 = bitcast <16 x i8> %v22 to <2 x i64>
  %v30 = bitcast <16 x i8> %v24 to <2 x i64>
  %v31 = shufflevector <2 x i64> %v29, <2 x i64> %v30, <2 x i32> <i32 0, i32 2>
  %v32 = bitcast <2 x i64> %v31 to <16 x i8>
  %v33 = bitcast <16 x i8> %v22 to <2 x i64>
  %v34 = bitcast <16 x i8> %v24 to <2 x i64>
  %v35 = shufflevector <2 x i64> %v33, <2 x i64> %v34, <2 x i32> <i32 1, i32 3>
  %v36 = bitcast <2 x i64> %v35 to <16 x i8>
  %v37 = bitcast <16 x i8> %v26 to <2 x i64>
  %v38 = bitcast <16 x i8> %v28 to <2 x i64>
  %v39 = shufflevector <2 x i64> %v37, <2 x i64> %v38, <2 x i32> <i32 0, i32 2>
  %v40 = bitcast <2 x i64> %v39 to <16 x i8>
  %v41 = bitcast <16 x i8> %v26 to <2 x i64>
  %v42 = bitcast <16 x i8> %v28 to <2 x i64>
  %v43 = shufflevector <2 x i64> %v41, <2 x i64> %v42, <2 x i32> <i32 1, i32 3>
  %v44 = bitcast <2 x i64> %v43 to <16 x i8>
  br label %v45
v45:
  %v46 = bitcast <16 x i8> %v32 to <4 x i32>
  %v47 = bitcast <16 x i8> %v40 to <4 x i32>
  %v48 = shufflevector <4 x i32> %v46, <4 x i32> %v47, <4 x i32> <i32 0, i32 4, i32 2, i32 6>
  %v49 = bitcast <4 x i32> %v48 to <16 x i8>
  %v50 = bitcast <16 x i8> %v32 to <4 x i32>
  %v51 = bitcast <16 x i8> %v40 to <4 x i32>
  %v52 = shufflevector <4 x i32> %v50, <4 x i32> %v51, <4 x i32> <i32 1, i32 5, i32 3, i32 7>
  %v53 = bitcast <4 x i32> %v52 to <16 x i8>
  %v54 = bitcast <16 x i8> %v36 to <4 x i32>
  %v55 = bitcast <16 x i8> %v44 to <4 x i32>
  %v56 = shufflevector <4 x i32> %v54, <4 x i32> %v55, <4 x i32> <i32 0, i32 4, i32 2, i32 6>
  %v57 = bitcast <4 x i32> %v56 to <16 x i8>
  %v58 = bitcast <16 x i8> %v36 to <4 x i32>
  %v59 = bitcast <16 x i8> %v44 to <4 x i32>
  %v60 = shufflevector <4 x i32> %v58, <4 x i32> %v59, <4 x i32> <i32 1, i32 5, i32 3, i32 7>
  %v61 = bitcast <4 x i32> %v60 to <16 x i8>
  %v62 = shufflevector <16 x i8> %v49, <16 x i8> %v49, <16 x i32> <i32 0, i32 8, i32 4, i32 12, i32 1, i32 9, i32 5, i32 13, i32 2, i32 10, i32 6, i32 14, i32 3, i32 11, i32 7, i32 15>
  %v63 = shufflevector <16 x i8> %v57, <16 x i8> %v57, <16 x i32> <i32 0, i32 8, i32 4, i32 12, i32 1, i32 9, i32 5, i32 13, i32 2, i32 10, i32 6, i32 14, i32 3, i32 11, i32 7, i32 15>
  %v64 = shufflevector <16 x i8> %v53, <16 x i8> %v53, <16 x i32> <i32 0, i32 8, i32 4, i32 12, i32 1, i32 9, i32 5, i32 13, i32 2, i32 10, i32 6, i32 14, i32 3, i32 11, i32 7, i32 15>
  %v65 = shufflevector <16 x i8> %v61, <16 x i8> %v61, <16 x i32> <i32 0, i32 8, i32 4, i32 12, i32 1, i32 9, i32 5, i32 13, i32 2, i32 10, i32 6, i32 14, i32 3, i32 11, i32 7, i32 15>
  store <16 x i8> %v62, ptr %v21, align 1
  %v66 = getelementptr i8, ptr %v21, i64 16
  store <16 x i8> %v64, ptr %v66, align 1
  %v67 = getelementptr i8, ptr %v21, i64 32
  store <16 x i8> %v63, ptr %v67, align 1
  %v68 = getelementptr i8, ptr %v21, i64 48
  store <16 x i8> %v65, ptr %v68, align 1
  %v16 = add nuw nsw i64 %v15, 1
  %v69 = icmp slt i64 %v16, 4
  br i1 %v69, label %v13, label %v14
v14:
  %v7 = add nuw nsw i64 %v6, 1
  %v70 = icmp slt i64 %v7, 16
  br i1 %v70, label %v4, label %v5
v5:
  br label %v2
v2:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
@cuts = private constant [1 x ptr] [ptr blockaddress(@restride, %v45)], section "llvm.metadata"
!0 = !{i32 1}
