; src s8 + 0, dst f32 + 0
; for 100: src += 1, dst += 1
;   dst = f32(alpha * src + beta * dst)

; --- avx512
; # copy of a0 100: one axis is contiguous on both sides
; tile(a0, 100) · permute_source()
declare <64 x i32> @llvm.masked.load.v64i32.p0(ptr, i32, <64 x i1>, <64 x i32>)
declare <64 x i8> @llvm.masked.load.v64i8.p0(ptr, i32, <64 x i1>, <64 x i8>)
declare void @llvm.masked.store.v64i32.p0(<64 x i32>, ptr, i32, <64 x i1>)
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v1 = load double, ptr %params, align 8
  %v2 = fptrunc double %v1 to float
  %v3 = getelementptr i8, ptr %params, i64 8
  %v4 = load double, ptr %v3, align 8
  %v5 = fptrunc double %v4 to float
  %v8 = icmp eq i64 %part, 0
  br i1 %v8, label %v6, label %v7
v6:
  %v9 = load <64 x i8>, ptr %src, align 1
  %v10 = getelementptr i8, ptr %src, i64 64
  %v11 = call <64 x i8> @llvm.masked.load.v64i8.p0(ptr %v10, i32 1, <64 x i1> <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>, <64 x i8> zeroinitializer)
  %v12 = sitofp <64 x i8> %v9 to <64 x float>
  %v13 = insertelement <64 x float> poison, float %v2, i64 0
  %v14 = shufflevector <64 x float> %v13, <64 x float> %v13, <64 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v15 = fmul <64 x float> %v12, %v14
  %v16 = insertelement <64 x float> poison, float %v5, i64 0
  %v17 = shufflevector <64 x float> %v16, <64 x float> %v16, <64 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v18 = load <64 x i32>, ptr %dst, align 1
  %v19 = bitcast <64 x i32> %v18 to <64 x float>
  %v20 = fmul <64 x float> %v17, %v19
  %v21 = fadd <64 x float> %v15, %v20
  %v22 = fcmp uno <64 x float> %v21, %v21
  %v23 = bitcast <64 x float> %v21 to <64 x i32>
  %v24 = select <64 x i1> %v22, <64 x i32> splat (i32 2143289344), <64 x i32> %v23
  %v25 = bitcast <64 x i32> %v24 to <64 x float>
  %v26 = bitcast <64 x float> %v25 to <64 x i32>
  store <64 x i32> %v26, ptr %dst, align 1
  %v27 = sitofp <64 x i8> %v11 to <64 x float>
  %v28 = insertelement <64 x float> poison, float %v2, i64 0
  %v29 = shufflevector <64 x float> %v28, <64 x float> %v28, <64 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v30 = fmul <64 x float> %v27, %v29
  %v31 = insertelement <64 x float> poison, float %v5, i64 0
  %v32 = shufflevector <64 x float> %v31, <64 x float> %v31, <64 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v33 = getelementptr i8, ptr %dst, i64 256
  %v34 = call <64 x i32> @llvm.masked.load.v64i32.p0(ptr %v33, i32 1, <64 x i1> <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>, <64 x i32> zeroinitializer)
  %v35 = bitcast <64 x i32> %v34 to <64 x float>
  %v36 = fmul <64 x float> %v32, %v35
  %v37 = fadd <64 x float> %v30, %v36
  %v38 = fcmp uno <64 x float> %v37, %v37
  %v39 = bitcast <64 x float> %v37 to <64 x i32>
  %v40 = select <64 x i1> %v38, <64 x i32> splat (i32 2143289344), <64 x i32> %v39
  %v41 = bitcast <64 x i32> %v40 to <64 x float>
  %v42 = bitcast <64 x float> %v41 to <64 x i32>
  %v43 = select <64 x i1> <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>, <64 x i32> %v42, <64 x i32> zeroinitializer
  %v44 = getelementptr i8, ptr %dst, i64 256
  call void @llvm.masked.store.v64i32.p0(<64 x i32> %v43, ptr %v44, i32 1, <64 x i1> <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>)
  br label %v7
v7:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
!0 = !{i32 1}

; --- avx2
; # copy of a0 100: one axis is contiguous on both sides
; tile(a0, 100) · permute_source()
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v1 = load double, ptr %params, align 8
  %v2 = fptrunc double %v1 to float
  %v3 = getelementptr i8, ptr %params, i64 8
  %v4 = load double, ptr %v3, align 8
  %v5 = fptrunc double %v4 to float
  %v8 = icmp eq i64 %part, 0
  br i1 %v8, label %v6, label %v7
v6:
  %v9 = load <32 x i8>, ptr %src, align 1
  %v10 = getelementptr i8, ptr %src, i64 32
  %v11 = load <32 x i8>, ptr %v10, align 1
  %v12 = getelementptr i8, ptr %src, i64 64
  %v13 = load <32 x i8>, ptr %v12, align 1
  %v14 = getelementptr i8, ptr %src, i64 96
  %v15 = getelementptr i8, ptr %src, i64 96
  %v16 = load <4 x i8>, ptr %v15, align 1
  %v17 = shufflevector <4 x i8> %v16, <4 x i8> %v16, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v18 = shufflevector <32 x i8> zeroinitializer, <32 x i8> %v17, <32 x i32> <i32 32, i32 33, i32 34, i32 35, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %v19 = sitofp <32 x i8> %v9 to <32 x float>
  %v20 = insertelement <32 x float> poison, float %v2, i64 0
  %v21 = shufflevector <32 x float> %v20, <32 x float> %v20, <32 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v22 = fmul <32 x float> %v19, %v21
  %v23 = insertelement <32 x float> poison, float %v5, i64 0
  %v24 = shufflevector <32 x float> %v23, <32 x float> %v23, <32 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v25 = load <32 x i32>, ptr %dst, align 1
  %v26 = bitcast <32 x i32> %v25 to <32 x float>
  %v27 = fmul <32 x float> %v24, %v26
  %v28 = fadd <32 x float> %v22, %v27
  %v29 = fcmp uno <32 x float> %v28, %v28
  %v30 = bitcast <32 x float> %v28 to <32 x i32>
  %v31 = select <32 x i1> %v29, <32 x i32> splat (i32 2143289344), <32 x i32> %v30
  %v32 = bitcast <32 x i32> %v31 to <32 x float>
  %v33 = bitcast <32 x float> %v32 to <32 x i32>
  store <32 x i32> %v33, ptr %dst, align 1
  %v34 = sitofp <32 x i8> %v11 to <32 x float>
  %v35 = insertelement <32 x float> poison, float %v2, i64 0
  %v36 = shufflevector <32 x float> %v35, <32 x float> %v35, <32 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v37 = fmul <32 x float> %v34, %v36
  %v38 = insertelement <32 x float> poison, float %v5, i64 0
  %v39 = shufflevector <32 x float> %v38, <32 x float> %v38, <32 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v40 = getelementptr i8, ptr %dst, i64 128
  %v41 = load <32 x i32>, ptr %v40, align 1
  %v42 = bitcast <32 x i32> %v41 to <32 x float>
  %v43 = fmul <32 x float> %v39, %v42
  %v44 = fadd <32 x float> %v37, %v43
  %v45 = fcmp uno <32 x float> %v44, %v44
  %v46 = bitcast <32 x float> %v44 to <32 x i32>
  %v47 = select <32 x i1> %v45, <32 x i32> splat (i32 2143289344), <32 x i32> %v46
  %v48 = bitcast <32 x i32> %v47 to <32 x float>
  %v49 = bitcast <32 x float> %v48 to <32 x i32>
  %v50 = getelementptr i8, ptr %dst, i64 128
  store <32 x i32> %v49, ptr %v50, align 1
  %v51 = sitofp <32 x i8> %v13 to <32 x float>
  %v52 = insertelement <32 x float> poison, float %v2, i64 0
  %v53 = shufflevector <32 x float> %v52, <32 x float> %v52, <32 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v54 = fmul <32 x float> %v51, %v53
  %v55 = insertelement <32 x float> poison, float %v5, i64 0
  %v56 = shufflevector <32 x float> %v55, <32 x float> %v55, <32 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v57 = getelementptr i8, ptr %dst, i64 256
  %v58 = load <32 x i32>, ptr %v57, align 1
  %v59 = bitcast <32 x i32> %v58 to <32 x float>
  %v60 = fmul <32 x float> %v56, %v59
  %v61 = fadd <32 x float> %v54, %v60
  %v62 = fcmp uno <32 x float> %v61, %v61
  %v63 = bitcast <32 x float> %v61 to <32 x i32>
  %v64 = select <32 x i1> %v62, <32 x i32> splat (i32 2143289344), <32 x i32> %v63
  %v65 = bitcast <32 x i32> %v64 to <32 x float>
  %v66 = bitcast <32 x float> %v65 to <32 x i32>
  %v67 = getelementptr i8, ptr %dst, i64 256
  store <32 x i32> %v66, ptr %v67, align 1
  %v68 = sitofp <32 x i8> %v18 to <32 x float>
  %v69 = insertelement <32 x float> poison, float %v2, i64 0
  %v70 = shufflevector <32 x float> %v69, <32 x float> %v69, <32 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v71 = fmul <32 x float> %v68, %v70
  %v72 = insertelement <32 x float> poison, float %v5, i64 0
  %v73 = shufflevector <32 x float> %v72, <32 x float> %v72, <32 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v74 = getelementptr i8, ptr %dst, i64 384
  %v75 = getelementptr i8, ptr %dst, i64 384
  %v76 = load <4 x i32>, ptr %v75, align 1
  %v77 = shufflevector <4 x i32> %v76, <4 x i32> %v76, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v78 = shufflevector <32 x i32> zeroinitializer, <32 x i32> %v77, <32 x i32> <i32 32, i32 33, i32 34, i32 35, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %v79 = bitcast <32 x i32> %v78 to <32 x float>
  %v80 = fmul <32 x float> %v73, %v79
  %v81 = fadd <32 x float> %v71, %v80
  %v82 = fcmp uno <32 x float> %v81, %v81
  %v83 = bitcast <32 x float> %v81 to <32 x i32>
  %v84 = select <32 x i1> %v82, <32 x i32> splat (i32 2143289344), <32 x i32> %v83
  %v85 = bitcast <32 x i32> %v84 to <32 x float>
  %v86 = bitcast <32 x float> %v85 to <32 x i32>
  %v87 = select <32 x i1> <i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>, <32 x i32> %v86, <32 x i32> zeroinitializer
  %v88 = shufflevector <32 x i32> %v87, <32 x i32> %v87, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v89 = getelementptr i8, ptr %dst, i64 384
  store <4 x i32> %v88, ptr %v89, align 1
  br label %v7
v7:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
!0 = !{i32 1}

; --- neon
; # copy of a0 100: one axis is contiguous on both sides
; tile(a0, 64) · permute_source()
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v1 = load double, ptr %params, align 8
  %v2 = fptrunc double %v1 to float
  %v3 = getelementptr i8, ptr %params, i64 8
  %v4 = load double, ptr %v3, align 8
  %v5 = fptrunc double %v4 to float
  %v8 = icmp eq i64 %part, 0
  br i1 %v8, label %v6, label %v7
v6:
  %v9 = load <16 x i8>, ptr %src, align 1
  %v10 = getelementptr i8, ptr %src, i64 16
  %v11 = load <16 x i8>, ptr %v10, align 1
  %v12 = getelementptr i8, ptr %src, i64 32
  %v13 = load <16 x i8>, ptr %v12, align 1
  %v14 = getelementptr i8, ptr %src, i64 48
  %v15 = load <16 x i8>, ptr %v14, align 1
  %v16 = sitofp <16 x i8> %v9 to <16 x float>
  %v17 = insertelement <16 x float> poison, float %v2, i64 0
  %v18 = shufflevector <16 x float> %v17, <16 x float> %v17, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v19 = fmul <16 x float> %v16, %v18
  %v20 = insertelement <16 x float> poison, float %v5, i64 0
  %v21 = shufflevector <16 x float> %v20, <16 x float> %v20, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v22 = load <16 x i32>, ptr %dst, align 1
  %v23 = bitcast <16 x i32> %v22 to <16 x float>
  %v24 = fmul <16 x float> %v21, %v23
  %v25 = fadd <16 x float> %v19, %v24
  %v26 = fcmp uno <16 x float> %v25, %v25
  %v27 = bitcast <16 x float> %v25 to <16 x i32>
  %v28 = select <16 x i1> %v26, <16 x i32> splat (i32 2143289344), <16 x i32> %v27
  %v29 = bitcast <16 x i32> %v28 to <16 x float>
  %v30 = bitcast <16 x float> %v29 to <16 x i32>
  store <16 x i32> %v30, ptr %dst, align 1
  %v31 = sitofp <16 x i8> %v11 to <16 x float>
  %v32 = insertelement <16 x float> poison, float %v2, i64 0
  %v33 = shufflevector <16 x float> %v32, <16 x float> %v32, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v34 = fmul <16 x float> %v31, %v33
  %v35 = insertelement <16 x float> poison, float %v5, i64 0
  %v36 = shufflevector <16 x float> %v35, <16 x float> %v35, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v37 = getelementptr i8, ptr %dst, i64 64
  %v38 = load <16 x i32>, ptr %v37, align 1
  %v39 = bitcast <16 x i32> %v38 to <16 x float>
  %v40 = fmul <16 x float> %v36, %v39
  %v41 = fadd <16 x float> %v34, %v40
  %v42 = fcmp uno <16 x float> %v41, %v41
  %v43 = bitcast <16 x float> %v41 to <16 x i32>
  %v44 = select <16 x i1> %v42, <16 x i32> splat (i32 2143289344), <16 x i32> %v43
  %v45 = bitcast <16 x i32> %v44 to <16 x float>
  %v46 = bitcast <16 x float> %v45 to <16 x i32>
  %v47 = getelementptr i8, ptr %dst, i64 64
  store <16 x i32> %v46, ptr %v47, align 1
  %v48 = sitofp <16 x i8> %v13 to <16 x float>
  %v49 = insertelement <16 x float> poison, float %v2, i64 0
  %v50 = shufflevector <16 x float> %v49, <16 x float> %v49, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v51 = fmul <16 x float> %v48, %v50
  %v52 = insertelement <16 x float> poison, float %v5, i64 0
  %v53 = shufflevector <16 x float> %v52, <16 x float> %v52, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v54 = getelementptr i8, ptr %dst, i64 128
  %v55 = load <16 x i32>, ptr %v54, align 1
  %v56 = bitcast <16 x i32> %v55 to <16 x float>
  %v57 = fmul <16 x float> %v53, %v56
  %v58 = fadd <16 x float> %v51, %v57
  %v59 = fcmp uno <16 x float> %v58, %v58
  %v60 = bitcast <16 x float> %v58 to <16 x i32>
  %v61 = select <16 x i1> %v59, <16 x i32> splat (i32 2143289344), <16 x i32> %v60
  %v62 = bitcast <16 x i32> %v61 to <16 x float>
  %v63 = bitcast <16 x float> %v62 to <16 x i32>
  %v64 = getelementptr i8, ptr %dst, i64 128
  store <16 x i32> %v63, ptr %v64, align 1
  %v65 = sitofp <16 x i8> %v15 to <16 x float>
  %v66 = insertelement <16 x float> poison, float %v2, i64 0
  %v67 = shufflevector <16 x float> %v66, <16 x float> %v66, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v68 = fmul <16 x float> %v65, %v67
  %v69 = insertelement <16 x float> poison, float %v5, i64 0
  %v70 = shufflevector <16 x float> %v69, <16 x float> %v69, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v71 = getelementptr i8, ptr %dst, i64 192
  %v72 = load <16 x i32>, ptr %v71, align 1
  %v73 = bitcast <16 x i32> %v72 to <16 x float>
  %v74 = fmul <16 x float> %v70, %v73
  %v75 = fadd <16 x float> %v68, %v74
  %v76 = fcmp uno <16 x float> %v75, %v75
  %v77 = bitcast <16 x float> %v75 to <16 x i32>
  %v78 = select <16 x i1> %v76, <16 x i32> splat (i32 2143289344), <16 x i32> %v77
  %v79 = bitcast <16 x i32> %v78 to <16 x float>
  %v80 = bitcast <16 x float> %v79 to <16 x i32>
  %v81 = getelementptr i8, ptr %dst, i64 192
  store <16 x i32> %v80, ptr %v81, align 1
  %v82 = getelementptr i8, ptr %src, i64 64
  %v83 = getelementptr i8, ptr %dst, i64 256
  %v84 = load <16 x i8>, ptr %v82, align 1
  %v85 = getelementptr i8, ptr %v82, i64 16
  %v86 = load <16 x i8>, ptr %v85, align 1
  %v87 = getelementptr i8, ptr %v82, i64 32
  %v88 = getelementptr i8, ptr %v82, i64 32
  %v89 = load <4 x i8>, ptr %v88, align 1
  %v90 = shufflevector <4 x i8> %v89, <4 x i8> %v89, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v91 = shufflevector <16 x i8> zeroinitializer, <16 x i8> %v90, <16 x i32> <i32 16, i32 17, i32 18, i32 19, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v92 = sitofp <16 x i8> %v84 to <16 x float>
  %v93 = insertelement <16 x float> poison, float %v2, i64 0
  %v94 = shufflevector <16 x float> %v93, <16 x float> %v93, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v95 = fmul <16 x float> %v92, %v94
  %v96 = insertelement <16 x float> poison, float %v5, i64 0
  %v97 = shufflevector <16 x float> %v96, <16 x float> %v96, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v98 = load <16 x i32>, ptr %v83, align 1
  %v99 = bitcast <16 x i32> %v98 to <16 x float>
  %v100 = fmul <16 x float> %v97, %v99
  %v101 = fadd <16 x float> %v95, %v100
  %v102 = fcmp uno <16 x float> %v101, %v101
  %v103 = bitcast <16 x float> %v101 to <16 x i32>
  %v104 = select <16 x i1> %v102, <16 x i32> splat (i32 2143289344), <16 x i32> %v103
  %v105 = bitcast <16 x i32> %v104 to <16 x float>
  %v106 = bitcast <16 x float> %v105 to <16 x i32>
  store <16 x i32> %v106, ptr %v83, align 1
  %v107 = sitofp <16 x i8> %v86 to <16 x float>
  %v108 = insertelement <16 x float> poison, float %v2, i64 0
  %v109 = shufflevector <16 x float> %v108, <16 x float> %v108, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v110 = fmul <16 x float> %v107, %v109
  %v111 = insertelement <16 x float> poison, float %v5, i64 0
  %v112 = shufflevector <16 x float> %v111, <16 x float> %v111, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v113 = getelementptr i8, ptr %v83, i64 64
  %v114 = load <16 x i32>, ptr %v113, align 1
  %v115 = bitcast <16 x i32> %v114 to <16 x float>
  %v116 = fmul <16 x float> %v112, %v115
  %v117 = fadd <16 x float> %v110, %v116
  %v118 = fcmp uno <16 x float> %v117, %v117
  %v119 = bitcast <16 x float> %v117 to <16 x i32>
  %v120 = select <16 x i1> %v118, <16 x i32> splat (i32 2143289344), <16 x i32> %v119
  %v121 = bitcast <16 x i32> %v120 to <16 x float>
  %v122 = bitcast <16 x float> %v121 to <16 x i32>
  %v123 = getelementptr i8, ptr %v83, i64 64
  store <16 x i32> %v122, ptr %v123, align 1
  %v124 = sitofp <16 x i8> %v91 to <16 x float>
  %v125 = insertelement <16 x float> poison, float %v2, i64 0
  %v126 = shufflevector <16 x float> %v125, <16 x float> %v125, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v127 = fmul <16 x float> %v124, %v126
  %v128 = insertelement <16 x float> poison, float %v5, i64 0
  %v129 = shufflevector <16 x float> %v128, <16 x float> %v128, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v130 = getelementptr i8, ptr %v83, i64 128
  %v131 = getelementptr i8, ptr %v83, i64 128
  %v132 = load <4 x i32>, ptr %v131, align 1
  %v133 = shufflevector <4 x i32> %v132, <4 x i32> %v132, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v134 = shufflevector <16 x i32> zeroinitializer, <16 x i32> %v133, <16 x i32> <i32 16, i32 17, i32 18, i32 19, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v135 = bitcast <16 x i32> %v134 to <16 x float>
  %v136 = fmul <16 x float> %v129, %v135
  %v137 = fadd <16 x float> %v127, %v136
  %v138 = fcmp uno <16 x float> %v137, %v137
  %v139 = bitcast <16 x float> %v137 to <16 x i32>
  %v140 = select <16 x i1> %v138, <16 x i32> splat (i32 2143289344), <16 x i32> %v139
  %v141 = bitcast <16 x i32> %v140 to <16 x float>
  %v142 = bitcast <16 x float> %v141 to <16 x i32>
  %v143 = select <16 x i1> <i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>, <16 x i32> %v142, <16 x i32> zeroinitializer
  %v144 = shufflevector <16 x i32> %v143, <16 x i32> %v143, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v145 = getelementptr i8, ptr %v83, i64 128
  store <4 x i32> %v144, ptr %v145, align 1
  br label %v7
v7:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
!0 = !{i32 1}
