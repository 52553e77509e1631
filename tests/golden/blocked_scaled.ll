; src f32 + 0, dst s8 + 0
; dim 0: read below 17, zero below 32
; for 1: src += 68, dst += 128
;   for 2: src += 64, dst += 64 (dim 0 step 16)
;     for 16: src += 4, dst += 1 (dim 0 step 1)
;       for 2: src += 2, dst += 32
;         for 2: src += 1, dst += 16
;           dst = s8(alpha * src)

; --- avx512
; # transpose of a0 4, a1 16: the contiguous axes of the two sides differ
; tile(a0, 4) · tile(a1, 16)
; # transpose of a0 4, a1 16 (1 read): the contiguous axes of the two sides differ
; 1.tile(a0, 4) · 1.tile(a1, 16)
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
; # transpose of a0 4, a1 16: the contiguous axes of the two sides differ
; tile(a0, 4) · tile(a1, 16)
; # transpose of a0 4, a1 16 (1 read): the contiguous axes of the two sides differ
; 1.tile(a0, 4) · 1.tile(a1, 16)
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
; # transpose of a0 4, a1 16: the contiguous axes of the two sides differ
; tile(a0, 4) · tile(a1, 16)
; # transpose of a0 4, a1 16 (1 read): the contiguous axes of the two sides differ
; 1.tile(a0, 4) · 1.tile(a1, 16)
declare <16 x i16> @llvm.smax.v16i16(<16 x i16>, <16 x i16>)
declare <16 x i16> @llvm.smin.v16i16(<16 x i16>, <16 x i16>)
declare <16 x i32> @llvm.smax.v16i32(<16 x i32>, <16 x i32>)
declare <16 x i32> @llvm.smin.v16i32(<16 x i32>, <16 x i32>)
declare <4 x i32> @llvm.aarch64.neon.fcvtns.v4i32.v4f32(<4 x float>)
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
  %v11 = shufflevector <16 x float> %v10, <16 x float> %v10, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v12 = shufflevector <16 x float> %v10, <16 x float> %v10, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v13 = shufflevector <16 x float> %v10, <16 x float> %v10, <4 x i32> <i32 8, i32 9, i32 10, i32 11>
  %v14 = shufflevector <16 x float> %v10, <16 x float> %v10, <4 x i32> <i32 12, i32 13, i32 14, i32 15>
  %v15 = call <4 x i32> @llvm.aarch64.neon.fcvtns.v4i32.v4f32(<4 x float> %v11)
  %v16 = call <4 x i32> @llvm.aarch64.neon.fcvtns.v4i32.v4f32(<4 x float> %v12)
  %v17 = call <4 x i32> @llvm.aarch64.neon.fcvtns.v4i32.v4f32(<4 x float> %v13)
  %v18 = call <4 x i32> @llvm.aarch64.neon.fcvtns.v4i32.v4f32(<4 x float> %v14)
  %v19 = shufflevector <4 x i32> %v15, <4 x i32> %v16, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v20 = shufflevector <4 x i32> %v17, <4 x i32> %v18, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v21 = shufflevector <8 x i32> %v19, <8 x i32> %v20, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v22 = call <16 x i32> @llvm.smax.v16i32(<16 x i32> %v21, <16 x i32> splat (i32 -32768))
  %v23 = call <16 x i32> @llvm.smin.v16i32(<16 x i32> %v22, <16 x i32> splat (i32 32767))
  %v24 = trunc <16 x i32> %v23 to <16 x i16>
  %v25 = call <16 x i16> @llvm.smax.v16i16(<16 x i16> %v24, <16 x i16> splat (i16 -128))
  %v26 = call <16 x i16> @llvm.smin.v16i16(<16 x i16> %v25, <16 x i16> splat (i16 127))
  %v27 = trunc <16 x i16> %v26 to <16 x i8>
  %v28 = getelementptr i8, ptr %src, i64 64
  %v29 = load <16 x i32>, ptr %v28, align 1
  %v30 = bitcast <16 x i32> %v29 to <16 x float>
  %v31 = insertelement <16 x float> poison, float %v2, i64 0
  %v32 = shufflevector <16 x float> %v31, <16 x float> %v31, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v33 = fmul <16 x float> %v30, %v32
  %v34 = shufflevector <16 x float> %v33, <16 x float> %v33, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v35 = shufflevector <16 x float> %v33, <16 x float> %v33, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v36 = shufflevector <16 x float> %v33, <16 x float> %v33, <4 x i32> <i32 8, i32 9, i32 10, i32 11>
  %v37 = shufflevector <16 x float> %v33, <16 x float> %v33, <4 x i32> <i32 12, i32 13, i32 14, i32 15>
  %v38 = call <4 x i32> @llvm.aarch64.neon.fcvtns.v4i32.v4f32(<4 x float> %v34)
  %v39 = call <4 x i32> @llvm.aarch64.neon.fcvtns.v4i32.v4f32(<4 x float> %v35)
  %v40 = call <4 x i32> @llvm.aarch64.neon.fcvtns.v4i32.v4f32(<4 x float> %v36)
  %v41 = call <4 x i32> @llvm.aarch64.neon.fcvtns.v4i32.v4f32(<4 x float> %v37)
  %v42 = shufflevector <4 x i32> %v38, <4 x i32> %v39, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v43 = shufflevector <4 x i32> %v40, <4 x i32> %v41, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v44 = shufflevector <8 x i32> %v42, <8 x i32> %v43, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v45 = call <16 x i32> @llvm.smax.v16i32(<16 x i32> %v44, <16 x i32> splat (i32 -32768))
  %v46 = call <16 x i32> @llvm.smin.v16i32(<16 x i32> %v45, <16 x i32> splat (i32 32767))
  %v47 = trunc <16 x i32> %v46 to <16 x i16>
  %v48 = call <16 x i16> @llvm.smax.v16i16(<16 x i16> %v47, <16 x i16> splat (i16 -128))
  %v49 = call <16 x i16> @llvm.smin.v16i16(<16 x i16> %v48, <16 x i16> splat (i16 127))
  %v50 = trunc <16 x i16> %v49 to <16 x i8>
  %v51 = getelementptr i8, ptr %src, i64 128
  %v52 = load <16 x i32>, ptr %v51, align 1
  %v53 = bitcast <16 x i32> %v52 to <16 x float>
  %v54 = insertelement <16 x float> poison, float %v2, i64 0
  %v55 = shufflevector <16 x float> %v54, <16 x float> %v54, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v56 = fmul <16 x float> %v53, %v55
  %v57 = shufflevector <16 x float> %v56, <16 x float> %v56, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v58 = shufflevector <16 x float> %v56, <16 x float> %v56, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v59 = shufflevector <16 x float> %v56, <16 x float> %v56, <4 x i32> <i32 8, i32 9, i32 10, i32 11>
  %v60 = shufflevector <16 x float> %v56, <16 x float> %v56, <4 x i32> <i32 12, i32 13, i32 14, i32 15>
  %v61 = call <4 x i32> @llvm.aarch64.neon.fcvtns.v4i32.v4f32(<4 x float> %v57)
  %v62 = call <4 x i32> @llvm.aarch64.neon.fcvtns.v4i32.v4f32(<4 x float> %v58)
  %v63 = call <4 x i32> @llvm.aarch64.neon.fcvtns.v4i32.v4f32(<4 x float> %v59)
  %v64 = call <4 x i32> @llvm.aarch64.neon.fcvtns.v4i32.v4f32(<4 x float> %v60)
  %v65 = shufflevector <4 x i32> %v61, <4 x i32> %v62, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v66 = shufflevector <4 x i32> %v63, <4 x i32> %v64, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v67 = shufflevector <8 x i32> %v65, <8 x i32> %v66, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v68 = call <16 x i32> @llvm.smax.v16i32(<16 x i32> %v67, <16 x i32> splat (i32 -32768))
  %v69 = call <16 x i32> @llvm.smin.v16i32(<16 x i32> %v68, <16 x i32> splat (i32 32767))
  %v70 = trunc <16 x i32> %v69 to <16 x i16>
  %v71 = call <16 x i16> @llvm.smax.v16i16(<16 x i16> %v70, <16 x i16> splat (i16 -128))
  %v72 = call <16 x i16> @llvm.smin.v16i16(<16 x i16> %v71, <16 x i16> splat (i16 127))
  %v73 = trunc <16 x i16> %v72 to <16 x i8>
  %v74 = getelementptr i8, ptr %src, i64 192
  %v75 = load <16 x i32>, ptr %v74, align 1
  %v76 = bitcast <16 x i32> %v75 to <16 x float>
  %v77 = insertelement <16 x float> poison, float %v2, i64 0
  %v78 = shufflevector <16 x float> %v77, <16 x float> %v77, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v79 = fmul <16 x float> %v76, %v78
  %v80 = shufflevector <16 x float> %v79, <16 x float> %v79, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v81 = shufflevector <16 x float> %v79, <16 x float> %v79, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v82 = shufflevector <16 x float> %v79, <16 x float> %v79, <4 x i32> <i32 8, i32 9, i32 10, i32 11>
  %v83 = shufflevector <16 x float> %v79, <16 x float> %v79, <4 x i32> <i32 12, i32 13, i32 14, i32 15>
  %v84 = call <4 x i32> @llvm.aarch64.neon.fcvtns.v4i32.v4f32(<4 x float> %v80)
  %v85 = call <4 x i32> @llvm.aarch64.neon.fcvtns.v4i32.v4f32(<4 x float> %v81)
  %v86 = call <4 x i32> @llvm.aarch64.neon.fcvtns.v4i32.v4f32(<4 x float> %v82)
  %v87 = call <4 x i32> @llvm.aarch64.neon.fcvtns.v4i32.v4f32(<4 x float> %v83)
  %v88 = shufflevector <4 x i32> %v84, <4 x i32> %v85, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v89 = shufflevector <4 x i32> %v86, <4 x i32> %v87, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v90 = shufflevector <8 x i32> %v88, <8 x i32> %v89, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v91 = call <16 x i32> @llvm.smax.v16i32(<16 x i32> %v90, <16 x i32> splat (i32 -32768))
  %v92 = call <16 x i32> @llvm.smin.v16i32(<16 x i32> %v91, <16 x i32> splat (i32 32767))
  %v93 = trunc <16 x i32> %v92 to <16 x i16>
  %v94 = call <16 x i16> @llvm.smax.v16i16(<16 x i16> %v93, <16 x i16> splat (i16 -128))
  %v95 = call <16 x i16> @llvm.smin.v16i16(<16 x i16> %v94, <16 x i16> splat (i16 127))
  %v96 = trunc <16 x i16> %v95 to <16 x i8>
  %v97 = shufflevector <16 x i8> %v27, <16 x i8> %v73, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v98 = shufflevector <16 x i8> %v27, <16 x i8> %v73, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v99 = shufflevector <16 x i8> %v50, <16 x i8> %v96, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v100 = shufflevector <16 x i8> %v50, <16 x i8> %v96, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  br label %v101
v101:
  %v102 = shufflevector <16 x i8> %v97, <16 x i8> %v99, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v103 = shufflevector <16 x i8> %v97, <16 x i8> %v99, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v104 = shufflevector <16 x i8> %v98, <16 x i8> %v100, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v105 = shufflevector <16 x i8> %v98, <16 x i8> %v100, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  br label %v106
v106:
  %v107 = shufflevector <16 x i8> %v102, <16 x i8> %v104, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v108 = shufflevector <16 x i8> %v102, <16 x i8> %v104, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v109 = shufflevector <16 x i8> %v103, <16 x i8> %v105, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v110 = shufflevector <16 x i8> %v103, <16 x i8> %v105, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  br label %v111
v111:
  %v112 = shufflevector <16 x i8> %v107, <16 x i8> %v109, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v113 = shufflevector <16 x i8> %v107, <16 x i8> %v109, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v114 = shufflevector <16 x i8> %v108, <16 x i8> %v110, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v115 = shufflevector <16 x i8> %v108, <16 x i8> %v110, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  store <16 x i8> %v112, ptr %dst, align 1
  %v116 = getelementptr i8, ptr %dst, i64 16
  store <16 x i8> %v113, ptr %v116, align 1
  %v117 = getelementptr i8, ptr %dst, i64 32
  store <16 x i8> %v114, ptr %v117, align 1
  %v118 = getelementptr i8, ptr %dst, i64 48
  store <16 x i8> %v115, ptr %v118, align 1
  br label %v4
v4:
  %v119 = getelementptr i8, ptr %src, i64 256
  %v120 = getelementptr i8, ptr %dst, i64 64
  %v123 = icmp eq i64 %part, 0
  br i1 %v123, label %v121, label %v122
v121:
  %v124 = load <4 x i32>, ptr %v119, align 1
  %v125 = shufflevector <4 x i32> %v124, <4 x i32> %v124, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v126 = shufflevector <16 x i32> zeroinitializer, <16 x i32> %v125, <16 x i32> <i32 16, i32 17, i32 18, i32 19, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v127 = bitcast <16 x i32> %v126 to <16 x float>
  %v128 = insertelement <16 x float> poison, float %v2, i64 0
  %v129 = shufflevector <16 x float> %v128, <16 x float> %v128, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v130 = fmul <16 x float> %v127, %v129
  %v131 = shufflevector <16 x float> %v130, <16 x float> %v130, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v132 = shufflevector <16 x float> %v130, <16 x float> %v130, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v133 = shufflevector <16 x float> %v130, <16 x float> %v130, <4 x i32> <i32 8, i32 9, i32 10, i32 11>
  %v134 = shufflevector <16 x float> %v130, <16 x float> %v130, <4 x i32> <i32 12, i32 13, i32 14, i32 15>
  %v135 = call <4 x i32> @llvm.aarch64.neon.fcvtns.v4i32.v4f32(<4 x float> %v131)
  %v136 = call <4 x i32> @llvm.aarch64.neon.fcvtns.v4i32.v4f32(<4 x float> %v132)
  %v137 = call <4 x i32> @llvm.aarch64.neon.fcvtns.v4i32.v4f32(<4 x float> %v133)
  %v138 = call <4 x i32> @llvm.aarch64.neon.fcvtns.v4i32.v4f32(<4 x float> %v134)
  %v139 = shufflevector <4 x i32> %v135, <4 x i32> %v136, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v140 = shufflevector <4 x i32> %v137, <4 x i32> %v138, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v141 = shufflevector <8 x i32> %v139, <8 x i32> %v140, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v142 = call <16 x i32> @llvm.smax.v16i32(<16 x i32> %v141, <16 x i32> splat (i32 -32768))
  %v143 = call <16 x i32> @llvm.smin.v16i32(<16 x i32> %v142, <16 x i32> splat (i32 32767))
  %v144 = trunc <16 x i32> %v143 to <16 x i16>
  %v145 = call <16 x i16> @llvm.smax.v16i16(<16 x i16> %v144, <16 x i16> splat (i16 -128))
  %v146 = call <16 x i16> @llvm.smin.v16i16(<16 x i16> %v145, <16 x i16> splat (i16 127))
  %v147 = trunc <16 x i16> %v146 to <16 x i8>
  %v148 = select <16 x i1> <i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>, <16 x i8> %v147, <16 x i8> zeroinitializer
  %v149 = shufflevector <16 x i8> %v148, <16 x i8> zeroinitializer, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v150 = shufflevector <16 x i8> %v148, <16 x i8> zeroinitializer, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  br label %v151
v151:
  %v152 = shufflevector <16 x i8> %v149, <16 x i8> zeroinitializer, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v153 = shufflevector <16 x i8> %v149, <16 x i8> zeroinitializer, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v154 = shufflevector <16 x i8> %v150, <16 x i8> zeroinitializer, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v155 = shufflevector <16 x i8> %v150, <16 x i8> zeroinitializer, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  br label %v156
v156:
  %v157 = shufflevector <16 x i8> %v152, <16 x i8> %v154, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v158 = shufflevector <16 x i8> %v152, <16 x i8> %v154, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v159 = shufflevector <16 x i8> %v153, <16 x i8> %v155, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v160 = shufflevector <16 x i8> %v153, <16 x i8> %v155, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  br label %v161
v161:
  %v162 = shufflevector <16 x i8> %v157, <16 x i8> %v159, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v163 = shufflevector <16 x i8> %v157, <16 x i8> %v159, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  %v164 = shufflevector <16 x i8> %v158, <16 x i8> %v160, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 2, i32 18, i32 3, i32 19, i32 4, i32 20, i32 5, i32 21, i32 6, i32 22, i32 7, i32 23>
  %v165 = shufflevector <16 x i8> %v158, <16 x i8> %v160, <16 x i32> <i32 8, i32 24, i32 9, i32 25, i32 10, i32 26, i32 11, i32 27, i32 12, i32 28, i32 13, i32 29, i32 14, i32 30, i32 15, i32 31>
  store <16 x i8> %v162, ptr %v120, align 1
  %v166 = getelementptr i8, ptr %v120, i64 16
  store <16 x i8> %v163, ptr %v166, align 1
  %v167 = getelementptr i8, ptr %v120, i64 32
  store <16 x i8> %v164, ptr %v167, align 1
  %v168 = getelementptr i8, ptr %v120, i64 48
  store <16 x i8> %v165, ptr %v168, align 1
  br label %v122
v122:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
@cuts = private constant [6 x ptr] [ptr blockaddress(@restride, %v101), ptr blockaddress(@restride, %v106), ptr blockaddress(@restride, %v111), ptr blockaddress(@restride, %v151), ptr blockaddress(@restride, %v156), ptr blockaddress(@restride, %v161)], section "llvm.metadata"
!0 = !{i32 1}
