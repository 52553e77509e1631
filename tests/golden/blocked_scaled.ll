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
declare <16 x i32> @llvm.masked.load.v16i32.p0(ptr, i32, <16 x i1>, <16 x i32>)
declare <16 x i32> @llvm.x86.avx512.mask.cvtps2dq.512(<16 x float>, <16 x i32>, i16, i32)
declare <32 x i16> @llvm.x86.avx512.packssdw.512(<16 x i32>, <16 x i32>)
declare <64 x i8> @llvm.x86.avx512.packsswb.512(<32 x i16>, <32 x i16>)
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v1 = load double, ptr %params, align 8
  %v2 = fptrunc double %v1 to float
  %v5 = icmp eq i64 %part, 0
  br i1 %v5, label %v3, label %v4
v3:
  %v6 = load <16 x i32>, ptr %src, align 1
  %v7 = bitcast <16 x i32> %v6 to <16 x float>
  %v8 = insertelement <16 x float> poison, float %v2, i64 0
  %v9 = shufflevector <16 x float> %v8, <16 x float> %v8, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v10 = fmul <16 x float> %v7, %v9
  %v11 = fcmp ord <16 x float> %v10, %v10
  %v12 = fcmp olt <16 x float> %v10, splat (float 127.0)
  %v13 = select <16 x i1> %v12, <16 x float> %v10, <16 x float> splat (float 127.0)
  %v14 = call <16 x i32> @llvm.x86.avx512.mask.cvtps2dq.512(<16 x float> %v13, <16 x i32> zeroinitializer, i16 -1, i32 4)
  %v15 = select <16 x i1> %v11, <16 x i32> %v14, <16 x i32> zeroinitializer
  %v16 = getelementptr i8, ptr %src, i64 64
  %v17 = load <16 x i32>, ptr %v16, align 1
  %v18 = bitcast <16 x i32> %v17 to <16 x float>
  %v19 = insertelement <16 x float> poison, float %v2, i64 0
  %v20 = shufflevector <16 x float> %v19, <16 x float> %v19, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v21 = fmul <16 x float> %v18, %v20
  %v22 = fcmp ord <16 x float> %v21, %v21
  %v23 = fcmp olt <16 x float> %v21, splat (float 127.0)
  %v24 = select <16 x i1> %v23, <16 x float> %v21, <16 x float> splat (float 127.0)
  %v25 = call <16 x i32> @llvm.x86.avx512.mask.cvtps2dq.512(<16 x float> %v24, <16 x i32> zeroinitializer, i16 -1, i32 4)
  %v26 = select <16 x i1> %v22, <16 x i32> %v25, <16 x i32> zeroinitializer
  %v27 = getelementptr i8, ptr %src, i64 128
  %v28 = load <16 x i32>, ptr %v27, align 1
  %v29 = bitcast <16 x i32> %v28 to <16 x float>
  %v30 = insertelement <16 x float> poison, float %v2, i64 0
  %v31 = shufflevector <16 x float> %v30, <16 x float> %v30, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v32 = fmul <16 x float> %v29, %v31
  %v33 = fcmp ord <16 x float> %v32, %v32
  %v34 = fcmp olt <16 x float> %v32, splat (float 127.0)
  %v35 = select <16 x i1> %v34, <16 x float> %v32, <16 x float> splat (float 127.0)
  %v36 = call <16 x i32> @llvm.x86.avx512.mask.cvtps2dq.512(<16 x float> %v35, <16 x i32> zeroinitializer, i16 -1, i32 4)
  %v37 = select <16 x i1> %v33, <16 x i32> %v36, <16 x i32> zeroinitializer
  %v38 = getelementptr i8, ptr %src, i64 192
  %v39 = load <16 x i32>, ptr %v38, align 1
  %v40 = bitcast <16 x i32> %v39 to <16 x float>
  %v41 = insertelement <16 x float> poison, float %v2, i64 0
  %v42 = shufflevector <16 x float> %v41, <16 x float> %v41, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v43 = fmul <16 x float> %v40, %v42
  %v44 = fcmp ord <16 x float> %v43, %v43
  %v45 = fcmp olt <16 x float> %v43, splat (float 127.0)
  %v46 = select <16 x i1> %v45, <16 x float> %v43, <16 x float> splat (float 127.0)
  %v47 = call <16 x i32> @llvm.x86.avx512.mask.cvtps2dq.512(<16 x float> %v46, <16 x i32> zeroinitializer, i16 -1, i32 4)
  %v48 = select <16 x i1> %v44, <16 x i32> %v47, <16 x i32> zeroinitializer
  %v49 = call <32 x i16> @llvm.x86.avx512.packssdw.512(<16 x i32> %v15, <16 x i32> %v26)
  %v50 = call <32 x i16> @llvm.x86.avx512.packssdw.512(<16 x i32> %v37, <16 x i32> %v48)
  %v51 = call <64 x i8> @llvm.x86.avx512.packsswb.512(<32 x i16> %v49, <32 x i16> %v50)
  %v52 = shufflevector <64 x i8> %v51, <64 x i8> %v51, <64 x i32> <i32 0, i32 16, i32 32, i32 48, i32 4, i32 20, i32 36, i32 52, i32 8, i32 24, i32 40, i32 56, i32 12, i32 28, i32 44, i32 60, i32 1, i32 17, i32 33, i32 49, i32 5, i32 21, i32 37, i32 53, i32 9, i32 25, i32 41, i32 57, i32 13, i32 29, i32 45, i32 61, i32 2, i32 18, i32 34, i32 50, i32 6, i32 22, i32 38, i32 54, i32 10, i32 26, i32 42, i32 58, i32 14, i32 30, i32 46, i32 62, i32 3, i32 19, i32 35, i32 51, i32 7, i32 23, i32 39, i32 55, i32 11, i32 27, i32 43, i32 59, i32 15, i32 31, i32 47, i32 63>
  store <64 x i8> %v52, ptr %dst, align 1
  br label %v4
v4:
  %v53 = getelementptr i8, ptr %src, i64 256
  %v54 = getelementptr i8, ptr %dst, i64 64
  %v57 = icmp eq i64 %part, 0
  br i1 %v57, label %v55, label %v56
v55:
  %v58 = call <16 x i32> @llvm.masked.load.v16i32.p0(ptr %v53, i32 1, <16 x i1> <i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>, <16 x i32> zeroinitializer)
  %v59 = bitcast <16 x i32> %v58 to <16 x float>
  %v60 = insertelement <16 x float> poison, float %v2, i64 0
  %v61 = shufflevector <16 x float> %v60, <16 x float> %v60, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v62 = fmul <16 x float> %v59, %v61
  %v63 = fcmp ord <16 x float> %v62, %v62
  %v64 = fcmp olt <16 x float> %v62, splat (float 127.0)
  %v65 = select <16 x i1> %v64, <16 x float> %v62, <16 x float> splat (float 127.0)
  %v66 = call <16 x i32> @llvm.x86.avx512.mask.cvtps2dq.512(<16 x float> %v65, <16 x i32> zeroinitializer, i16 -1, i32 4)
  %v67 = select <16 x i1> %v63, <16 x i32> %v66, <16 x i32> zeroinitializer
  %v68 = call <32 x i16> @llvm.x86.avx512.packssdw.512(<16 x i32> %v67, <16 x i32> zeroinitializer)
  %v69 = call <32 x i16> @llvm.x86.avx512.packssdw.512(<16 x i32> zeroinitializer, <16 x i32> zeroinitializer)
  %v70 = call <64 x i8> @llvm.x86.avx512.packsswb.512(<32 x i16> %v68, <32 x i16> %v69)
  %v71 = select <64 x i1> <i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>, <64 x i8> %v70, <64 x i8> zeroinitializer
  %v72 = shufflevector <64 x i8> %v71, <64 x i8> %v71, <64 x i32> <i32 0, i32 16, i32 32, i32 48, i32 4, i32 20, i32 36, i32 52, i32 8, i32 24, i32 40, i32 56, i32 12, i32 28, i32 44, i32 60, i32 1, i32 17, i32 33, i32 49, i32 5, i32 21, i32 37, i32 53, i32 9, i32 25, i32 41, i32 57, i32 13, i32 29, i32 45, i32 61, i32 2, i32 18, i32 34, i32 50, i32 6, i32 22, i32 38, i32 54, i32 10, i32 26, i32 42, i32 58, i32 14, i32 30, i32 46, i32 62, i32 3, i32 19, i32 35, i32 51, i32 7, i32 23, i32 39, i32 55, i32 11, i32 27, i32 43, i32 59, i32 15, i32 31, i32 47, i32 63>
  store <64 x i8> %v72, ptr %v54, align 1
  br label %v56
v56:
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
declare <16 x i16> @llvm.x86.avx2.packssdw(<8 x i32>, <8 x i32>)
declare <32 x i8> @llvm.x86.avx2.packsswb(<16 x i16>, <16 x i16>)
declare <8 x i32> @llvm.x86.avx.cvt.ps2dq.256(<8 x float>)
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v1 = load double, ptr %params, align 8
  %v2 = fptrunc double %v1 to float
  %v5 = icmp eq i64 %part, 0
  br i1 %v5, label %v3, label %v4
v3:
  %v6 = load <8 x i32>, ptr %src, align 1
  %v7 = bitcast <8 x i32> %v6 to <8 x float>
  %v8 = insertelement <8 x float> poison, float %v2, i64 0
  %v9 = shufflevector <8 x float> %v8, <8 x float> %v8, <8 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v10 = fmul <8 x float> %v7, %v9
  %v11 = fcmp ord <8 x float> %v10, %v10
  %v12 = fcmp olt <8 x float> %v10, splat (float 127.0)
  %v13 = select <8 x i1> %v12, <8 x float> %v10, <8 x float> splat (float 127.0)
  %v14 = call <8 x i32> @llvm.x86.avx.cvt.ps2dq.256(<8 x float> %v13)
  %v15 = select <8 x i1> %v11, <8 x i32> %v14, <8 x i32> zeroinitializer
  %v16 = getelementptr i8, ptr %src, i64 32
  %v17 = load <8 x i32>, ptr %v16, align 1
  %v18 = bitcast <8 x i32> %v17 to <8 x float>
  %v19 = insertelement <8 x float> poison, float %v2, i64 0
  %v20 = shufflevector <8 x float> %v19, <8 x float> %v19, <8 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v21 = fmul <8 x float> %v18, %v20
  %v22 = fcmp ord <8 x float> %v21, %v21
  %v23 = fcmp olt <8 x float> %v21, splat (float 127.0)
  %v24 = select <8 x i1> %v23, <8 x float> %v21, <8 x float> splat (float 127.0)
  %v25 = call <8 x i32> @llvm.x86.avx.cvt.ps2dq.256(<8 x float> %v24)
  %v26 = select <8 x i1> %v22, <8 x i32> %v25, <8 x i32> zeroinitializer
  %v27 = getelementptr i8, ptr %src, i64 64
  %v28 = load <8 x i32>, ptr %v27, align 1
  %v29 = bitcast <8 x i32> %v28 to <8 x float>
  %v30 = insertelement <8 x float> poison, float %v2, i64 0
  %v31 = shufflevector <8 x float> %v30, <8 x float> %v30, <8 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v32 = fmul <8 x float> %v29, %v31
  %v33 = fcmp ord <8 x float> %v32, %v32
  %v34 = fcmp olt <8 x float> %v32, splat (float 127.0)
  %v35 = select <8 x i1> %v34, <8 x float> %v32, <8 x float> splat (float 127.0)
  %v36 = call <8 x i32> @llvm.x86.avx.cvt.ps2dq.256(<8 x float> %v35)
  %v37 = select <8 x i1> %v33, <8 x i32> %v36, <8 x i32> zeroinitializer
  %v38 = getelementptr i8, ptr %src, i64 96
  %v39 = load <8 x i32>, ptr %v38, align 1
  %v40 = bitcast <8 x i32> %v39 to <8 x float>
  %v41 = insertelement <8 x float> poison, float %v2, i64 0
  %v42 = shufflevector <8 x float> %v41, <8 x float> %v41, <8 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v43 = fmul <8 x float> %v40, %v42
  %v44 = fcmp ord <8 x float> %v43, %v43
  %v45 = fcmp olt <8 x float> %v43, splat (float 127.0)
  %v46 = select <8 x i1> %v45, <8 x float> %v43, <8 x float> splat (float 127.0)
  %v47 = call <8 x i32> @llvm.x86.avx.cvt.ps2dq.256(<8 x float> %v46)
  %v48 = select <8 x i1> %v44, <8 x i32> %v47, <8 x i32> zeroinitializer
  %v49 = call <16 x i16> @llvm.x86.avx2.packssdw(<8 x i32> %v15, <8 x i32> %v26)
  %v50 = call <16 x i16> @llvm.x86.avx2.packssdw(<8 x i32> %v37, <8 x i32> %v48)
  %v51 = call <32 x i8> @llvm.x86.avx2.packsswb(<16 x i16> %v49, <16 x i16> %v50)
  %v52 = getelementptr i8, ptr %src, i64 128
  %v53 = load <8 x i32>, ptr %v52, align 1
  %v54 = bitcast <8 x i32> %v53 to <8 x float>
  %v55 = insertelement <8 x float> poison, float %v2, i64 0
  %v56 = shufflevector <8 x float> %v55, <8 x float> %v55, <8 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v57 = fmul <8 x float> %v54, %v56
  %v58 = fcmp ord <8 x float> %v57, %v57
  %v59 = fcmp olt <8 x float> %v57, splat (float 127.0)
  %v60 = select <8 x i1> %v59, <8 x float> %v57, <8 x float> splat (float 127.0)
  %v61 = call <8 x i32> @llvm.x86.avx.cvt.ps2dq.256(<8 x float> %v60)
  %v62 = select <8 x i1> %v58, <8 x i32> %v61, <8 x i32> zeroinitializer
  %v63 = getelementptr i8, ptr %src, i64 160
  %v64 = load <8 x i32>, ptr %v63, align 1
  %v65 = bitcast <8 x i32> %v64 to <8 x float>
  %v66 = insertelement <8 x float> poison, float %v2, i64 0
  %v67 = shufflevector <8 x float> %v66, <8 x float> %v66, <8 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v68 = fmul <8 x float> %v65, %v67
  %v69 = fcmp ord <8 x float> %v68, %v68
  %v70 = fcmp olt <8 x float> %v68, splat (float 127.0)
  %v71 = select <8 x i1> %v70, <8 x float> %v68, <8 x float> splat (float 127.0)
  %v72 = call <8 x i32> @llvm.x86.avx.cvt.ps2dq.256(<8 x float> %v71)
  %v73 = select <8 x i1> %v69, <8 x i32> %v72, <8 x i32> zeroinitializer
  %v74 = getelementptr i8, ptr %src, i64 192
  %v75 = load <8 x i32>, ptr %v74, align 1
  %v76 = bitcast <8 x i32> %v75 to <8 x float>
  %v77 = insertelement <8 x float> poison, float %v2, i64 0
  %v78 = shufflevector <8 x float> %v77, <8 x float> %v77, <8 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v79 = fmul <8 x float> %v76, %v78
  %v80 = fcmp ord <8 x float> %v79, %v79
  %v81 = fcmp olt <8 x float> %v79, splat (float 127.0)
  %v82 = select <8 x i1> %v81, <8 x float> %v79, <8 x float> splat (float 127.0)
  %v83 = call <8 x i32> @llvm.x86.avx.cvt.ps2dq.256(<8 x float> %v82)
  %v84 = select <8 x i1> %v80, <8 x i32> %v83, <8 x i32> zeroinitializer
  %v85 = getelementptr i8, ptr %src, i64 224
  %v86 = load <8 x i32>, ptr %v85, align 1
  %v87 = bitcast <8 x i32> %v86 to <8 x float>
  %v88 = insertelement <8 x float> poison, float %v2, i64 0
  %v89 = shufflevector <8 x float> %v88, <8 x float> %v88, <8 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v90 = fmul <8 x float> %v87, %v89
  %v91 = fcmp ord <8 x float> %v90, %v90
  %v92 = fcmp olt <8 x float> %v90, splat (float 127.0)
  %v93 = select <8 x i1> %v92, <8 x float> %v90, <8 x float> splat (float 127.0)
  %v94 = call <8 x i32> @llvm.x86.avx.cvt.ps2dq.256(<8 x float> %v93)
  %v95 = select <8 x i1> %v91, <8 x i32> %v94, <8 x i32> zeroinitializer
  %v96 = call <16 x i16> @llvm.x86.avx2.packssdw(<8 x i32> %v62, <8 x i32> %v73)
  %v97 = call <16 x i16> @llvm.x86.avx2.packssdw(<8 x i32> %v84, <8 x i32> %v95)
  %v98 = call <32 x i8> @llvm.x86.avx2.packsswb(<16 x i16> %v96, <16 x i16> %v97)
  %v99 = bitcast <32 x i8> %v51 to <16 x i16>
  %v100 = bitcast <32 x i8> %v98 to <16 x i16>
  %v101 = shufflevector <16 x i16> %v99, <16 x i16> %v100, <16 x i32> <i32 0, i32 16, i32 2, i32 18, i32 4, i32 20, i32 6, i32 22, i32 8, i32 24, i32 10, i32 26, i32 12, i32 28, i32 14, i32 30>
  %v102 = bitcast <16 x i16> %v101 to <32 x i8>
  %v103 = bitcast <32 x i8> %v51 to <16 x i16>
  %v104 = bitcast <32 x i8> %v98 to <16 x i16>
  %v105 = shufflevector <16 x i16> %v103, <16 x i16> %v104, <16 x i32> <i32 1, i32 17, i32 3, i32 19, i32 5, i32 21, i32 7, i32 23, i32 9, i32 25, i32 11, i32 27, i32 13, i32 29, i32 15, i32 31>
  %v106 = bitcast <16 x i16> %v105 to <32 x i8>
  %v107 = shufflevector <32 x i8> %v102, <32 x i8> %v102, <32 x i32> <i32 0, i32 16, i32 4, i32 20, i32 8, i32 24, i32 12, i32 28, i32 2, i32 18, i32 6, i32 22, i32 10, i32 26, i32 14, i32 30, i32 1, i32 17, i32 5, i32 21, i32 9, i32 25, i32 13, i32 29, i32 3, i32 19, i32 7, i32 23, i32 11, i32 27, i32 15, i32 31>
  %v108 = shufflevector <32 x i8> %v106, <32 x i8> %v106, <32 x i32> <i32 0, i32 16, i32 4, i32 20, i32 8, i32 24, i32 12, i32 28, i32 2, i32 18, i32 6, i32 22, i32 10, i32 26, i32 14, i32 30, i32 1, i32 17, i32 5, i32 21, i32 9, i32 25, i32 13, i32 29, i32 3, i32 19, i32 7, i32 23, i32 11, i32 27, i32 15, i32 31>
  store <32 x i8> %v107, ptr %dst, align 1
  %v109 = getelementptr i8, ptr %dst, i64 32
  store <32 x i8> %v108, ptr %v109, align 1
  br label %v4
v4:
  %v110 = getelementptr i8, ptr %src, i64 256
  %v111 = getelementptr i8, ptr %dst, i64 64
  %v114 = icmp eq i64 %part, 0
  br i1 %v114, label %v112, label %v113
v112:
  %v115 = load <4 x i32>, ptr %v110, align 1
  %v116 = shufflevector <4 x i32> %v115, <4 x i32> %v115, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison>
  %v117 = shufflevector <8 x i32> zeroinitializer, <8 x i32> %v116, <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 4, i32 5, i32 6, i32 7>
  %v118 = bitcast <8 x i32> %v117 to <8 x float>
  %v119 = insertelement <8 x float> poison, float %v2, i64 0
  %v120 = shufflevector <8 x float> %v119, <8 x float> %v119, <8 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v121 = fmul <8 x float> %v118, %v120
  %v122 = fcmp ord <8 x float> %v121, %v121
  %v123 = fcmp olt <8 x float> %v121, splat (float 127.0)
  %v124 = select <8 x i1> %v123, <8 x float> %v121, <8 x float> splat (float 127.0)
  %v125 = call <8 x i32> @llvm.x86.avx.cvt.ps2dq.256(<8 x float> %v124)
  %v126 = select <8 x i1> %v122, <8 x i32> %v125, <8 x i32> zeroinitializer
  %v127 = call <16 x i16> @llvm.x86.avx2.packssdw(<8 x i32> %v126, <8 x i32> zeroinitializer)
  %v128 = call <16 x i16> @llvm.x86.avx2.packssdw(<8 x i32> zeroinitializer, <8 x i32> zeroinitializer)
  %v129 = call <32 x i8> @llvm.x86.avx2.packsswb(<16 x i16> %v127, <16 x i16> %v128)
  %v130 = select <32 x i1> <i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>, <32 x i8> %v129, <32 x i8> zeroinitializer
  %v131 = bitcast <32 x i8> %v130 to <16 x i16>
  %v132 = bitcast <32 x i8> zeroinitializer to <16 x i16>
  %v133 = shufflevector <16 x i16> %v131, <16 x i16> %v132, <16 x i32> <i32 0, i32 16, i32 2, i32 18, i32 4, i32 20, i32 6, i32 22, i32 8, i32 24, i32 10, i32 26, i32 12, i32 28, i32 14, i32 30>
  %v134 = bitcast <16 x i16> %v133 to <32 x i8>
  %v135 = bitcast <32 x i8> %v130 to <16 x i16>
  %v136 = bitcast <32 x i8> zeroinitializer to <16 x i16>
  %v137 = shufflevector <16 x i16> %v135, <16 x i16> %v136, <16 x i32> <i32 1, i32 17, i32 3, i32 19, i32 5, i32 21, i32 7, i32 23, i32 9, i32 25, i32 11, i32 27, i32 13, i32 29, i32 15, i32 31>
  %v138 = bitcast <16 x i16> %v137 to <32 x i8>
  %v139 = shufflevector <32 x i8> %v134, <32 x i8> %v134, <32 x i32> <i32 0, i32 16, i32 4, i32 20, i32 8, i32 24, i32 12, i32 28, i32 2, i32 18, i32 6, i32 22, i32 10, i32 26, i32 14, i32 30, i32 1, i32 17, i32 5, i32 21, i32 9, i32 25, i32 13, i32 29, i32 3, i32 19, i32 7, i32 23, i32 11, i32 27, i32 15, i32 31>
  %v140 = shufflevector <32 x i8> %v138, <32 x i8> %v138, <32 x i32> <i32 0, i32 16, i32 4, i32 20, i32 8, i32 24, i32 12, i32 28, i32 2, i32 18, i32 6, i32 22, i32 10, i32 26, i32 14, i32 30, i32 1, i32 17, i32 5, i32 21, i32 9, i32 25, i32 13, i32 29, i32 3, i32 19, i32 7, i32 23, i32 11, i32 27, i32 15, i32 31>
  store <32 x i8> %v139, ptr %v111, align 1
  %v141 = getelementptr i8, ptr %v111, i64 32
  store <32 x i8> %v140, ptr %v141, align 1
  br label %v113
v113:
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
  %v1 = load double, ptr %params, align 8
  %v2 = fptrunc double %v1 to float
  %v5 = icmp eq i64 %part, 0
  br i1 %v5, label %v3, label %v4
v3:
  %v6 = load <16 x i32>, ptr %src, align 1
  %v7 = bitcast <16 x i32> %v6 to <16 x float>
  %v8 = insertelement <16 x float> poison, float %v2, i64 0
  %v9 = shufflevector <16 x float> %v8, <16 x float> %v8, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v10 = fmul <16 x float> %v7, %v9
  %v11 = fcmp ord <16 x float> %v10, %v10
  %v12 = select <16 x i1> %v11, <16 x float> %v10, <16 x float> splat (float 0.0)
  %v13 = fcmp ogt <16 x float> %v12, splat (float -128.0)
  %v14 = select <16 x i1> %v13, <16 x float> %v12, <16 x float> splat (float -128.0)
  %v15 = fcmp olt <16 x float> %v14, splat (float 127.0)
  %v16 = select <16 x i1> %v15, <16 x float> %v14, <16 x float> splat (float 127.0)
  %v17 = fadd <16 x float> %v16, splat (float 12582912.0)
  %v18 = bitcast <16 x float> %v17 to <16 x i32>
  %v19 = sub <16 x i32> %v18, splat (i32 1262485504)
  %v20 = trunc <16 x i32> %v19 to <16 x i8>
  %v21 = getelementptr i8, ptr %src, i64 64
  %v22 = load <16 x i32>, ptr %v21, align 1
  %v23 = bitcast <16 x i32> %v22 to <16 x float>
  %v24 = insertelement <16 x float> poison, float %v2, i64 0
  %v25 = shufflevector <16 x float> %v24, <16 x float> %v24, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v26 = fmul <16 x float> %v23, %v25
  %v27 = fcmp ord <16 x float> %v26, %v26
  %v28 = select <16 x i1> %v27, <16 x float> %v26, <16 x float> splat (float 0.0)
  %v29 = fcmp ogt <16 x float> %v28, splat (float -128.0)
  %v30 = select <16 x i1> %v29, <16 x float> %v28, <16 x float> splat (float -128.0)
  %v31 = fcmp olt <16 x float> %v30, splat (float 127.0)
  %v32 = select <16 x i1> %v31, <16 x float> %v30, <16 x float> splat (float 127.0)
  %v33 = fadd <16 x float> %v32, splat (float 12582912.0)
  %v34 = bitcast <16 x float> %v33 to <16 x i32>
  %v35 = sub <16 x i32> %v34, splat (i32 1262485504)
  %v36 = trunc <16 x i32> %v35 to <16 x i8>
  %v37 = getelementptr i8, ptr %src, i64 128
  %v38 = load <16 x i32>, ptr %v37, align 1
  %v39 = bitcast <16 x i32> %v38 to <16 x float>
  %v40 = insertelement <16 x float> poison, float %v2, i64 0
  %v41 = shufflevector <16 x float> %v40, <16 x float> %v40, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v42 = fmul <16 x float> %v39, %v41
  %v43 = fcmp ord <16 x float> %v42, %v42
  %v44 = select <16 x i1> %v43, <16 x float> %v42, <16 x float> splat (float 0.0)
  %v45 = fcmp ogt <16 x float> %v44, splat (float -128.0)
  %v46 = select <16 x i1> %v45, <16 x float> %v44, <16 x float> splat (float -128.0)
  %v47 = fcmp olt <16 x float> %v46, splat (float 127.0)
  %v48 = select <16 x i1> %v47, <16 x float> %v46, <16 x float> splat (float 127.0)
  %v49 = fadd <16 x float> %v48, splat (float 12582912.0)
  %v50 = bitcast <16 x float> %v49 to <16 x i32>
  %v51 = sub <16 x i32> %v50, splat (i32 1262485504)
  %v52 = trunc <16 x i32> %v51 to <16 x i8>
  %v53 = getelementptr i8, ptr %src, i64 192
  %v54 = load <16 x i32>, ptr %v53, align 1
  %v55 = bitcast <16 x i32> %v54 to <16 x float>
  %v56 = insertelement <16 x float> poison, float %v2, i64 0
  %v57 = shufflevector <16 x float> %v56, <16 x float> %v56, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v58 = fmul <16 x float> %v55, %v57
  %v59 = fcmp ord <16 x float> %v58, %v58
  %v60 = select <16 x i1> %v59, <16 x float> %v58, <16 x float> splat (float 0.0)
  %v61 = fcmp ogt <16 x float> %v60, splat (float -128.0)
  %v62 = select <16 x i1> %v61, <16 x float> %v60, <16 x float> splat (float -128.0)
  %v63 = fcmp olt <16 x float> %v62, splat (float 127.0)
  %v64 = select <16 x i1> %v63, <16 x float> %v62, <16 x float> splat (float 127.0)
  %v65 = fadd <16 x float> %v64, splat (float 12582912.0)
  %v66 = bitcast <16 x float> %v65 to <16 x i32>
  %v67 = sub <16 x i32> %v66, splat (i32 1262485504)
  %v68 = trunc <16 x i32> %v67 to <16 x i8>
  %v69 = shufflevector <16 x i8> %v20, <16 x i8> %v52, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v70 = shufflevector <16 x i8> %v20, <16 x i8> %v52, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v71 = shufflevector <16 x i8> %v36, <16 x i8> %v68, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v72 = shufflevector <16 x i8> %v36, <16 x i8> %v68, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  br label %v73
v73:
  %v74 = shufflevector <16 x i8> %v69, <16 x i8> %v71, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v75 = shufflevector <16 x i8> %v69, <16 x i8> %v71, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v76 = shufflevector <16 x i8> %v70, <16 x i8> %v72, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v77 = shufflevector <16 x i8> %v70, <16 x i8> %v72, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  br label %v78
v78:
  %v79 = shufflevector <16 x i8> %v74, <16 x i8> %v76, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v80 = shufflevector <16 x i8> %v74, <16 x i8> %v76, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v81 = shufflevector <16 x i8> %v75, <16 x i8> %v77, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v82 = shufflevector <16 x i8> %v75, <16 x i8> %v77, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  br label %v83
v83:
  %v84 = shufflevector <16 x i8> %v79, <16 x i8> %v81, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v85 = shufflevector <16 x i8> %v79, <16 x i8> %v81, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v86 = shufflevector <16 x i8> %v80, <16 x i8> %v82, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v87 = shufflevector <16 x i8> %v80, <16 x i8> %v82, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  store <16 x i8> %v84, ptr %dst, align 1
  %v88 = getelementptr i8, ptr %dst, i64 16
  store <16 x i8> %v85, ptr %v88, align 1
  %v89 = getelementptr i8, ptr %dst, i64 32
  store <16 x i8> %v86, ptr %v89, align 1
  %v90 = getelementptr i8, ptr %dst, i64 48
  store <16 x i8> %v87, ptr %v90, align 1
  br label %v4
v4:
  %v91 = getelementptr i8, ptr %src, i64 256
  %v92 = getelementptr i8, ptr %dst, i64 64
  %v95 = icmp eq i64 %part, 0
  br i1 %v95, label %v93, label %v94
v93:
  %v96 = load <4 x i32>, ptr %v91, align 1
  %v97 = shufflevector <4 x i32> %v96, <4 x i32> %v96, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v98 = shufflevector <16 x i32> zeroinitializer, <16 x i32> %v97, <16 x i32> <i32 16, i32 17, i32 18, i32 19, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v99 = bitcast <16 x i32> %v98 to <16 x float>
  %v100 = insertelement <16 x float> poison, float %v2, i64 0
  %v101 = shufflevector <16 x float> %v100, <16 x float> %v100, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v102 = fmul <16 x float> %v99, %v101
  %v103 = fcmp ord <16 x float> %v102, %v102
  %v104 = select <16 x i1> %v103, <16 x float> %v102, <16 x float> splat (float 0.0)
  %v105 = fcmp ogt <16 x float> %v104, splat (float -128.0)
  %v106 = select <16 x i1> %v105, <16 x float> %v104, <16 x float> splat (float -128.0)
  %v107 = fcmp olt <16 x float> %v106, splat (float 127.0)
  %v108 = select <16 x i1> %v107, <16 x float> %v106, <16 x float> splat (float 127.0)
  %v109 = fadd <16 x float> %v108, splat (float 12582912.0)
  %v110 = bitcast <16 x float> %v109 to <16 x i32>
  %v111 = sub <16 x i32> %v110, splat (i32 1262485504)
  %v112 = trunc <16 x i32> %v111 to <16 x i8>
  %v113 = select <16 x i1> <i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>, <16 x i8> %v112, <16 x i8> zeroinitializer
  %v114 = shufflevector <16 x i8> %v113, <16 x i8> zeroinitializer, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v115 = shufflevector <16 x i8> %v113, <16 x i8> zeroinitializer, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  br label %v116
v116:
  %v117 = shufflevector <16 x i8> %v114, <16 x i8> zeroinitializer, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v118 = shufflevector <16 x i8> %v114, <16 x i8> zeroinitializer, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v119 = shufflevector <16 x i8> %v115, <16 x i8> zeroinitializer, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v120 = shufflevector <16 x i8> %v115, <16 x i8> zeroinitializer, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  br label %v121
v121:
  %v122 = shufflevector <16 x i8> %v117, <16 x i8> %v119, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v123 = shufflevector <16 x i8> %v117, <16 x i8> %v119, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v124 = shufflevector <16 x i8> %v118, <16 x i8> %v120, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v125 = shufflevector <16 x i8> %v118, <16 x i8> %v120, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  br label %v126
v126:
  %v127 = shufflevector <16 x i8> %v122, <16 x i8> %v124, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v128 = shufflevector <16 x i8> %v122, <16 x i8> %v124, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v129 = shufflevector <16 x i8> %v123, <16 x i8> %v125, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v130 = shufflevector <16 x i8> %v123, <16 x i8> %v125, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  store <16 x i8> %v127, ptr %v92, align 1
  %v131 = getelementptr i8, ptr %v92, i64 16
  store <16 x i8> %v128, ptr %v131, align 1
  %v132 = getelementptr i8, ptr %v92, i64 32
  store <16 x i8> %v129, ptr %v132, align 1
  %v133 = getelementptr i8, ptr %v92, i64 48
  store <16 x i8> %v130, ptr %v133, align 1
  br label %v94
v94:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
@cuts = private constant [6 x ptr] [ptr blockaddress(@restride, %v73), ptr blockaddress(@restride, %v78), ptr blockaddress(@restride, %v83), ptr blockaddress(@restride, %v116), ptr blockaddress(@restride, %v121), ptr blockaddress(@restride, %v126)], section "llvm.metadata"
!0 = !{i32 1}
