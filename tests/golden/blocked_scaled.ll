; src f32 + 0, dst s8 + 0
; dim 0: read below 17, zero below 32
; for 1: src += 68, dst += 128
;   for 2: src += 64, dst += 64 (dim 0 step 16)
;     for 16: src += 4, dst += 1 (dim 0 step 1)
;       for 2: src += 2, dst += 32
;         for 2: src += 1, dst += 16
;           dst = s8(alpha * src)

; --- avx512
; transpose (the contiguous axes of the two sides differ): tile 4 of 4 x 16 of 16; grid []; inner axes []
; transpose (the contiguous axes of the two sides differ): tile 4 of 4 x 16 of 16; grid []; inner axes []
declare <64 x i32> @llvm.masked.load.v64i32.p0(ptr, i32, <64 x i1>, <64 x i32>)
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v1 = load float, ptr %params, align 4
  %v4 = icmp eq i64 %part, 0
  br i1 %v4, label %v2, label %v3
v2:
  %v5 = load <64 x i32>, ptr %src, align 1
  %v6 = bitcast <64 x i32> %v5 to <64 x float>
  %v7 = insertelement <64 x float> poison, float %v1, i64 0
  %v8 = shufflevector <64 x float> %v7, <64 x float> %v7, <64 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v9 = fmul <64 x float> %v8, %v6
  %v10 = fcmp ord <64 x float> %v9, %v9
  %v11 = select <64 x i1> %v10, <64 x float> %v9, <64 x float> splat (float 0.0)
  %v12 = fcmp ogt <64 x float> %v11, splat (float -128.0)
  %v13 = select <64 x i1> %v12, <64 x float> %v11, <64 x float> splat (float -128.0)
  %v14 = fcmp olt <64 x float> %v13, splat (float 127.0)
  %v15 = select <64 x i1> %v14, <64 x float> %v13, <64 x float> splat (float 127.0)
  %v16 = fadd <64 x float> %v15, splat (float 12582912.0)
  %v17 = bitcast <64 x float> %v16 to <64 x i32>
  %v18 = sub <64 x i32> %v17, splat (i32 1262485504)
  %v19 = trunc <64 x i32> %v18 to <64 x i8>
  %v20 = shufflevector <64 x i8> %v19, <64 x i8> %v19, <64 x i32> <i32 0, i32 4, i32 8, i32 12, i32 16, i32 20, i32 24, i32 28, i32 32, i32 36, i32 40, i32 44, i32 48, i32 52, i32 56, i32 60, i32 1, i32 5, i32 9, i32 13, i32 17, i32 21, i32 25, i32 29, i32 33, i32 37, i32 41, i32 45, i32 49, i32 53, i32 57, i32 61, i32 2, i32 6, i32 10, i32 14, i32 18, i32 22, i32 26, i32 30, i32 34, i32 38, i32 42, i32 46, i32 50, i32 54, i32 58, i32 62, i32 3, i32 7, i32 11, i32 15, i32 19, i32 23, i32 27, i32 31, i32 35, i32 39, i32 43, i32 47, i32 51, i32 55, i32 59, i32 63>
  store <64 x i8> %v20, ptr %dst, align 1
  br label %v3
v3:
  %v21 = getelementptr i8, ptr %src, i64 256
  %v22 = getelementptr i8, ptr %dst, i64 64
  %v25 = icmp eq i64 %part, 0
  br i1 %v25, label %v23, label %v24
v23:
  %v26 = call <64 x i32> @llvm.masked.load.v64i32.p0(ptr %v21, i32 1, <64 x i1> <i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>, <64 x i32> zeroinitializer)
  %v27 = bitcast <64 x i32> %v26 to <64 x float>
  %v28 = insertelement <64 x float> poison, float %v1, i64 0
  %v29 = shufflevector <64 x float> %v28, <64 x float> %v28, <64 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v30 = fmul <64 x float> %v29, %v27
  %v31 = fcmp ord <64 x float> %v30, %v30
  %v32 = select <64 x i1> %v31, <64 x float> %v30, <64 x float> splat (float 0.0)
  %v33 = fcmp ogt <64 x float> %v32, splat (float -128.0)
  %v34 = select <64 x i1> %v33, <64 x float> %v32, <64 x float> splat (float -128.0)
  %v35 = fcmp olt <64 x float> %v34, splat (float 127.0)
  %v36 = select <64 x i1> %v35, <64 x float> %v34, <64 x float> splat (float 127.0)
  %v37 = fadd <64 x float> %v36, splat (float 12582912.0)
  %v38 = bitcast <64 x float> %v37 to <64 x i32>
  %v39 = sub <64 x i32> %v38, splat (i32 1262485504)
  %v40 = trunc <64 x i32> %v39 to <64 x i8>
  %v41 = select <64 x i1> <i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>, <64 x i8> %v40, <64 x i8> zeroinitializer
  %v42 = shufflevector <64 x i8> %v41, <64 x i8> %v41, <64 x i32> <i32 0, i32 4, i32 8, i32 12, i32 16, i32 20, i32 24, i32 28, i32 32, i32 36, i32 40, i32 44, i32 48, i32 52, i32 56, i32 60, i32 1, i32 5, i32 9, i32 13, i32 17, i32 21, i32 25, i32 29, i32 33, i32 37, i32 41, i32 45, i32 49, i32 53, i32 57, i32 61, i32 2, i32 6, i32 10, i32 14, i32 18, i32 22, i32 26, i32 30, i32 34, i32 38, i32 42, i32 46, i32 50, i32 54, i32 58, i32 62, i32 3, i32 7, i32 11, i32 15, i32 19, i32 23, i32 27, i32 31, i32 35, i32 39, i32 43, i32 47, i32 51, i32 55, i32 59, i32 63>
  store <64 x i8> %v42, ptr %v22, align 1
  br label %v24
v24:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
!0 = !{i32 1}

; --- avx2
; transpose (the contiguous axes of the two sides differ): tile 4 of 4 x 16 of 16; grid []; inner axes []
; transpose (the contiguous axes of the two sides differ): tile 4 of 4 x 16 of 16; grid []; inner axes []
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v1 = load float, ptr %params, align 4
  %v4 = icmp eq i64 %part, 0
  br i1 %v4, label %v2, label %v3
v2:
  %v5 = load <32 x i32>, ptr %src, align 1
  %v6 = bitcast <32 x i32> %v5 to <32 x float>
  %v7 = insertelement <32 x float> poison, float %v1, i64 0
  %v8 = shufflevector <32 x float> %v7, <32 x float> %v7, <32 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v9 = fmul <32 x float> %v8, %v6
  %v10 = fcmp ord <32 x float> %v9, %v9
  %v11 = select <32 x i1> %v10, <32 x float> %v9, <32 x float> splat (float 0.0)
  %v12 = fcmp ogt <32 x float> %v11, splat (float -128.0)
  %v13 = select <32 x i1> %v12, <32 x float> %v11, <32 x float> splat (float -128.0)
  %v14 = fcmp olt <32 x float> %v13, splat (float 127.0)
  %v15 = select <32 x i1> %v14, <32 x float> %v13, <32 x float> splat (float 127.0)
  %v16 = fadd <32 x float> %v15, splat (float 12582912.0)
  %v17 = bitcast <32 x float> %v16 to <32 x i32>
  %v18 = sub <32 x i32> %v17, splat (i32 1262485504)
  %v19 = trunc <32 x i32> %v18 to <32 x i8>
  %v20 = getelementptr i8, ptr %src, i64 128
  %v21 = load <32 x i32>, ptr %v20, align 1
  %v22 = bitcast <32 x i32> %v21 to <32 x float>
  %v23 = insertelement <32 x float> poison, float %v1, i64 0
  %v24 = shufflevector <32 x float> %v23, <32 x float> %v23, <32 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v25 = fmul <32 x float> %v24, %v22
  %v26 = fcmp ord <32 x float> %v25, %v25
  %v27 = select <32 x i1> %v26, <32 x float> %v25, <32 x float> splat (float 0.0)
  %v28 = fcmp ogt <32 x float> %v27, splat (float -128.0)
  %v29 = select <32 x i1> %v28, <32 x float> %v27, <32 x float> splat (float -128.0)
  %v30 = fcmp olt <32 x float> %v29, splat (float 127.0)
  %v31 = select <32 x i1> %v30, <32 x float> %v29, <32 x float> splat (float 127.0)
  %v32 = fadd <32 x float> %v31, splat (float 12582912.0)
  %v33 = bitcast <32 x float> %v32 to <32 x i32>
  %v34 = sub <32 x i32> %v33, splat (i32 1262485504)
  %v35 = trunc <32 x i32> %v34 to <32 x i8>
  %v36 = shufflevector <32 x i8> %v19, <32 x i8> %v35, <32 x i32> <i32 0, i32 1, i32 32, i32 33, i32 4, i32 5, i32 36, i32 37, i32 8, i32 9, i32 40, i32 41, i32 12, i32 13, i32 44, i32 45, i32 16, i32 17, i32 48, i32 49, i32 20, i32 21, i32 52, i32 53, i32 24, i32 25, i32 56, i32 57, i32 28, i32 29, i32 60, i32 61>
  %v37 = shufflevector <32 x i8> %v19, <32 x i8> %v35, <32 x i32> <i32 2, i32 3, i32 34, i32 35, i32 6, i32 7, i32 38, i32 39, i32 10, i32 11, i32 42, i32 43, i32 14, i32 15, i32 46, i32 47, i32 18, i32 19, i32 50, i32 51, i32 22, i32 23, i32 54, i32 55, i32 26, i32 27, i32 58, i32 59, i32 30, i32 31, i32 62, i32 63>
  br label %v38
v38:
  %v39 = shufflevector <32 x i8> %v36, <32 x i8> %v36, <32 x i32> <i32 0, i32 4, i32 8, i32 12, i32 16, i32 20, i32 24, i32 28, i32 2, i32 6, i32 10, i32 14, i32 18, i32 22, i32 26, i32 30, i32 1, i32 5, i32 9, i32 13, i32 17, i32 21, i32 25, i32 29, i32 3, i32 7, i32 11, i32 15, i32 19, i32 23, i32 27, i32 31>
  %v40 = shufflevector <32 x i8> %v37, <32 x i8> %v37, <32 x i32> <i32 0, i32 4, i32 8, i32 12, i32 16, i32 20, i32 24, i32 28, i32 2, i32 6, i32 10, i32 14, i32 18, i32 22, i32 26, i32 30, i32 1, i32 5, i32 9, i32 13, i32 17, i32 21, i32 25, i32 29, i32 3, i32 7, i32 11, i32 15, i32 19, i32 23, i32 27, i32 31>
  store <32 x i8> %v39, ptr %dst, align 1
  %v41 = getelementptr i8, ptr %dst, i64 32
  %v42 = getelementptr i8, ptr %dst, i64 32
  store <32 x i8> %v40, ptr %v42, align 1
  br label %v3
v3:
  %v43 = getelementptr i8, ptr %src, i64 256
  %v44 = getelementptr i8, ptr %dst, i64 64
  %v47 = icmp eq i64 %part, 0
  br i1 %v47, label %v45, label %v46
v45:
  %v48 = load <4 x i32>, ptr %v43, align 1
  %v49 = shufflevector <4 x i32> %v48, <4 x i32> %v48, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v50 = shufflevector <32 x i32> zeroinitializer, <32 x i32> %v49, <32 x i32> <i32 32, i32 33, i32 34, i32 35, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %v51 = bitcast <32 x i32> %v50 to <32 x float>
  %v52 = insertelement <32 x float> poison, float %v1, i64 0
  %v53 = shufflevector <32 x float> %v52, <32 x float> %v52, <32 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v54 = fmul <32 x float> %v53, %v51
  %v55 = fcmp ord <32 x float> %v54, %v54
  %v56 = select <32 x i1> %v55, <32 x float> %v54, <32 x float> splat (float 0.0)
  %v57 = fcmp ogt <32 x float> %v56, splat (float -128.0)
  %v58 = select <32 x i1> %v57, <32 x float> %v56, <32 x float> splat (float -128.0)
  %v59 = fcmp olt <32 x float> %v58, splat (float 127.0)
  %v60 = select <32 x i1> %v59, <32 x float> %v58, <32 x float> splat (float 127.0)
  %v61 = fadd <32 x float> %v60, splat (float 12582912.0)
  %v62 = bitcast <32 x float> %v61 to <32 x i32>
  %v63 = sub <32 x i32> %v62, splat (i32 1262485504)
  %v64 = trunc <32 x i32> %v63 to <32 x i8>
  %v65 = select <32 x i1> <i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>, <32 x i8> %v64, <32 x i8> zeroinitializer
  %v66 = shufflevector <32 x i8> %v65, <32 x i8> zeroinitializer, <32 x i32> <i32 0, i32 1, i32 32, i32 33, i32 4, i32 5, i32 36, i32 37, i32 8, i32 9, i32 40, i32 41, i32 12, i32 13, i32 44, i32 45, i32 16, i32 17, i32 48, i32 49, i32 20, i32 21, i32 52, i32 53, i32 24, i32 25, i32 56, i32 57, i32 28, i32 29, i32 60, i32 61>
  %v67 = shufflevector <32 x i8> %v65, <32 x i8> zeroinitializer, <32 x i32> <i32 2, i32 3, i32 34, i32 35, i32 6, i32 7, i32 38, i32 39, i32 10, i32 11, i32 42, i32 43, i32 14, i32 15, i32 46, i32 47, i32 18, i32 19, i32 50, i32 51, i32 22, i32 23, i32 54, i32 55, i32 26, i32 27, i32 58, i32 59, i32 30, i32 31, i32 62, i32 63>
  br label %v68
v68:
  %v69 = shufflevector <32 x i8> %v66, <32 x i8> %v66, <32 x i32> <i32 0, i32 4, i32 8, i32 12, i32 16, i32 20, i32 24, i32 28, i32 2, i32 6, i32 10, i32 14, i32 18, i32 22, i32 26, i32 30, i32 1, i32 5, i32 9, i32 13, i32 17, i32 21, i32 25, i32 29, i32 3, i32 7, i32 11, i32 15, i32 19, i32 23, i32 27, i32 31>
  %v70 = shufflevector <32 x i8> %v67, <32 x i8> %v67, <32 x i32> <i32 0, i32 4, i32 8, i32 12, i32 16, i32 20, i32 24, i32 28, i32 2, i32 6, i32 10, i32 14, i32 18, i32 22, i32 26, i32 30, i32 1, i32 5, i32 9, i32 13, i32 17, i32 21, i32 25, i32 29, i32 3, i32 7, i32 11, i32 15, i32 19, i32 23, i32 27, i32 31>
  store <32 x i8> %v69, ptr %v44, align 1
  %v71 = getelementptr i8, ptr %v44, i64 32
  %v72 = getelementptr i8, ptr %v44, i64 32
  store <32 x i8> %v70, ptr %v72, align 1
  br label %v46
v46:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
!0 = !{i32 1}

; --- neon
; transpose (the contiguous axes of the two sides differ): tile 4 of 4 x 16 of 16; grid []; inner axes []
; transpose (the contiguous axes of the two sides differ): tile 4 of 4 x 16 of 16; grid []; inner axes []
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v1 = load float, ptr %params, align 4
  %v4 = icmp eq i64 %part, 0
  br i1 %v4, label %v2, label %v3
v2:
  %v5 = load <16 x i32>, ptr %src, align 1
  %v6 = bitcast <16 x i32> %v5 to <16 x float>
  %v7 = insertelement <16 x float> poison, float %v1, i64 0
  %v8 = shufflevector <16 x float> %v7, <16 x float> %v7, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v9 = fmul <16 x float> %v8, %v6
  %v10 = fcmp ord <16 x float> %v9, %v9
  %v11 = select <16 x i1> %v10, <16 x float> %v9, <16 x float> splat (float 0.0)
  %v12 = fcmp ogt <16 x float> %v11, splat (float -128.0)
  %v13 = select <16 x i1> %v12, <16 x float> %v11, <16 x float> splat (float -128.0)
  %v14 = fcmp olt <16 x float> %v13, splat (float 127.0)
  %v15 = select <16 x i1> %v14, <16 x float> %v13, <16 x float> splat (float 127.0)
  %v16 = fadd <16 x float> %v15, splat (float 12582912.0)
  %v17 = bitcast <16 x float> %v16 to <16 x i32>
  %v18 = sub <16 x i32> %v17, splat (i32 1262485504)
  %v19 = trunc <16 x i32> %v18 to <16 x i8>
  %v20 = getelementptr i8, ptr %src, i64 64
  %v21 = load <16 x i32>, ptr %v20, align 1
  %v22 = bitcast <16 x i32> %v21 to <16 x float>
  %v23 = insertelement <16 x float> poison, float %v1, i64 0
  %v24 = shufflevector <16 x float> %v23, <16 x float> %v23, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v25 = fmul <16 x float> %v24, %v22
  %v26 = fcmp ord <16 x float> %v25, %v25
  %v27 = select <16 x i1> %v26, <16 x float> %v25, <16 x float> splat (float 0.0)
  %v28 = fcmp ogt <16 x float> %v27, splat (float -128.0)
  %v29 = select <16 x i1> %v28, <16 x float> %v27, <16 x float> splat (float -128.0)
  %v30 = fcmp olt <16 x float> %v29, splat (float 127.0)
  %v31 = select <16 x i1> %v30, <16 x float> %v29, <16 x float> splat (float 127.0)
  %v32 = fadd <16 x float> %v31, splat (float 12582912.0)
  %v33 = bitcast <16 x float> %v32 to <16 x i32>
  %v34 = sub <16 x i32> %v33, splat (i32 1262485504)
  %v35 = trunc <16 x i32> %v34 to <16 x i8>
  %v36 = getelementptr i8, ptr %src, i64 128
  %v37 = load <16 x i32>, ptr %v36, align 1
  %v38 = bitcast <16 x i32> %v37 to <16 x float>
  %v39 = insertelement <16 x float> poison, float %v1, i64 0
  %v40 = shufflevector <16 x float> %v39, <16 x float> %v39, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v41 = fmul <16 x float> %v40, %v38
  %v42 = fcmp ord <16 x float> %v41, %v41
  %v43 = select <16 x i1> %v42, <16 x float> %v41, <16 x float> splat (float 0.0)
  %v44 = fcmp ogt <16 x float> %v43, splat (float -128.0)
  %v45 = select <16 x i1> %v44, <16 x float> %v43, <16 x float> splat (float -128.0)
  %v46 = fcmp olt <16 x float> %v45, splat (float 127.0)
  %v47 = select <16 x i1> %v46, <16 x float> %v45, <16 x float> splat (float 127.0)
  %v48 = fadd <16 x float> %v47, splat (float 12582912.0)
  %v49 = bitcast <16 x float> %v48 to <16 x i32>
  %v50 = sub <16 x i32> %v49, splat (i32 1262485504)
  %v51 = trunc <16 x i32> %v50 to <16 x i8>
  %v52 = getelementptr i8, ptr %src, i64 192
  %v53 = load <16 x i32>, ptr %v52, align 1
  %v54 = bitcast <16 x i32> %v53 to <16 x float>
  %v55 = insertelement <16 x float> poison, float %v1, i64 0
  %v56 = shufflevector <16 x float> %v55, <16 x float> %v55, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v57 = fmul <16 x float> %v56, %v54
  %v58 = fcmp ord <16 x float> %v57, %v57
  %v59 = select <16 x i1> %v58, <16 x float> %v57, <16 x float> splat (float 0.0)
  %v60 = fcmp ogt <16 x float> %v59, splat (float -128.0)
  %v61 = select <16 x i1> %v60, <16 x float> %v59, <16 x float> splat (float -128.0)
  %v62 = fcmp olt <16 x float> %v61, splat (float 127.0)
  %v63 = select <16 x i1> %v62, <16 x float> %v61, <16 x float> splat (float 127.0)
  %v64 = fadd <16 x float> %v63, splat (float 12582912.0)
  %v65 = bitcast <16 x float> %v64 to <16 x i32>
  %v66 = sub <16 x i32> %v65, splat (i32 1262485504)
  %v67 = trunc <16 x i32> %v66 to <16 x i8>
  %v68 = shufflevector <16 x i8> %v19, <16 x i8> %v51, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v69 = shufflevector <16 x i8> %v19, <16 x i8> %v51, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v70 = shufflevector <16 x i8> %v35, <16 x i8> %v67, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v71 = shufflevector <16 x i8> %v35, <16 x i8> %v67, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  br label %v72
v72:
  %v73 = shufflevector <16 x i8> %v68, <16 x i8> %v70, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v74 = shufflevector <16 x i8> %v68, <16 x i8> %v70, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v75 = shufflevector <16 x i8> %v69, <16 x i8> %v71, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v76 = shufflevector <16 x i8> %v69, <16 x i8> %v71, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  br label %v77
v77:
  %v78 = shufflevector <16 x i8> %v73, <16 x i8> %v75, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v79 = shufflevector <16 x i8> %v73, <16 x i8> %v75, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v80 = shufflevector <16 x i8> %v74, <16 x i8> %v76, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v81 = shufflevector <16 x i8> %v74, <16 x i8> %v76, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  br label %v82
v82:
  %v83 = shufflevector <16 x i8> %v78, <16 x i8> %v80, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v84 = shufflevector <16 x i8> %v78, <16 x i8> %v80, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v85 = shufflevector <16 x i8> %v79, <16 x i8> %v81, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v86 = shufflevector <16 x i8> %v79, <16 x i8> %v81, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  store <16 x i8> %v83, ptr %dst, align 1
  %v87 = getelementptr i8, ptr %dst, i64 16
  %v88 = getelementptr i8, ptr %dst, i64 16
  store <16 x i8> %v84, ptr %v88, align 1
  %v89 = getelementptr i8, ptr %dst, i64 32
  %v90 = getelementptr i8, ptr %dst, i64 32
  store <16 x i8> %v85, ptr %v90, align 1
  %v91 = getelementptr i8, ptr %dst, i64 48
  %v92 = getelementptr i8, ptr %dst, i64 48
  store <16 x i8> %v86, ptr %v92, align 1
  br label %v3
v3:
  %v93 = getelementptr i8, ptr %src, i64 256
  %v94 = getelementptr i8, ptr %dst, i64 64
  %v97 = icmp eq i64 %part, 0
  br i1 %v97, label %v95, label %v96
v95:
  %v98 = load <4 x i32>, ptr %v93, align 1
  %v99 = shufflevector <4 x i32> %v98, <4 x i32> %v98, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v100 = shufflevector <16 x i32> zeroinitializer, <16 x i32> %v99, <16 x i32> <i32 16, i32 17, i32 18, i32 19, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v101 = bitcast <16 x i32> %v100 to <16 x float>
  %v102 = insertelement <16 x float> poison, float %v1, i64 0
  %v103 = shufflevector <16 x float> %v102, <16 x float> %v102, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v104 = fmul <16 x float> %v103, %v101
  %v105 = fcmp ord <16 x float> %v104, %v104
  %v106 = select <16 x i1> %v105, <16 x float> %v104, <16 x float> splat (float 0.0)
  %v107 = fcmp ogt <16 x float> %v106, splat (float -128.0)
  %v108 = select <16 x i1> %v107, <16 x float> %v106, <16 x float> splat (float -128.0)
  %v109 = fcmp olt <16 x float> %v108, splat (float 127.0)
  %v110 = select <16 x i1> %v109, <16 x float> %v108, <16 x float> splat (float 127.0)
  %v111 = fadd <16 x float> %v110, splat (float 12582912.0)
  %v112 = bitcast <16 x float> %v111 to <16 x i32>
  %v113 = sub <16 x i32> %v112, splat (i32 1262485504)
  %v114 = trunc <16 x i32> %v113 to <16 x i8>
  %v115 = select <16 x i1> <i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>, <16 x i8> %v114, <16 x i8> zeroinitializer
  %v116 = shufflevector <16 x i8> %v115, <16 x i8> zeroinitializer, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v117 = shufflevector <16 x i8> %v115, <16 x i8> zeroinitializer, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  br label %v118
v118:
  %v119 = shufflevector <16 x i8> %v116, <16 x i8> zeroinitializer, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v120 = shufflevector <16 x i8> %v116, <16 x i8> zeroinitializer, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v121 = shufflevector <16 x i8> %v117, <16 x i8> zeroinitializer, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v122 = shufflevector <16 x i8> %v117, <16 x i8> zeroinitializer, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  br label %v123
v123:
  %v124 = shufflevector <16 x i8> %v119, <16 x i8> %v121, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v125 = shufflevector <16 x i8> %v119, <16 x i8> %v121, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v126 = shufflevector <16 x i8> %v120, <16 x i8> %v122, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v127 = shufflevector <16 x i8> %v120, <16 x i8> %v122, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  br label %v128
v128:
  %v129 = shufflevector <16 x i8> %v124, <16 x i8> %v126, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v130 = shufflevector <16 x i8> %v124, <16 x i8> %v126, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v131 = shufflevector <16 x i8> %v125, <16 x i8> %v127, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v132 = shufflevector <16 x i8> %v125, <16 x i8> %v127, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  store <16 x i8> %v129, ptr %v94, align 1
  %v133 = getelementptr i8, ptr %v94, i64 16
  %v134 = getelementptr i8, ptr %v94, i64 16
  store <16 x i8> %v130, ptr %v134, align 1
  %v135 = getelementptr i8, ptr %v94, i64 32
  %v136 = getelementptr i8, ptr %v94, i64 32
  store <16 x i8> %v131, ptr %v136, align 1
  %v137 = getelementptr i8, ptr %v94, i64 48
  %v138 = getelementptr i8, ptr %v94, i64 48
  store <16 x i8> %v132, ptr %v138, align 1
  br label %v96
v96:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
!0 = !{i32 1}
