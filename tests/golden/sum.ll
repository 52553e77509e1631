; src s8 + 0, dst f32 + 0
; for 100: src += 1, dst += 1
;   dst = f32(alpha * src + beta * dst)

; --- avx512
; copy (one axis is contiguous on both sides): tile 100 of 100; grid []; inner axes []
declare <64 x i32> @llvm.masked.load.v64i32.p0(ptr, i32, <64 x i1>, <64 x i32>)
declare <64 x i8> @llvm.masked.load.v64i8.p0(ptr, i32, <64 x i1>, <64 x i8>)
declare void @llvm.masked.store.v64i32.p0(<64 x i32>, ptr, i32, <64 x i1>)
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v1 = load float, ptr %params, align 4
  %v2 = getelementptr i8, ptr %params, i64 4
  %v3 = load float, ptr %v2, align 4
  %v6 = icmp eq i64 %part, 0
  br i1 %v6, label %v4, label %v5
v4:
  %v7 = load <64 x i8>, ptr %src, align 1
  %v8 = getelementptr i8, ptr %src, i64 64
  %v9 = call <64 x i8> @llvm.masked.load.v64i8.p0(ptr %v8, i32 1, <64 x i1> <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>, <64 x i8> zeroinitializer)
  %v10 = load <64 x i32>, ptr %dst, align 1
  %v11 = sitofp <64 x i8> %v7 to <64 x float>
  %v12 = insertelement <64 x float> poison, float %v1, i64 0
  %v13 = shufflevector <64 x float> %v12, <64 x float> %v12, <64 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v14 = fmul <64 x float> %v13, %v11
  %v15 = insertelement <64 x float> poison, float %v3, i64 0
  %v16 = shufflevector <64 x float> %v15, <64 x float> %v15, <64 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v17 = bitcast <64 x i32> %v10 to <64 x float>
  %v18 = fmul <64 x float> %v16, %v17
  %v19 = fadd <64 x float> %v14, %v18
  %v20 = fcmp uno <64 x float> %v19, %v19
  %v21 = bitcast <64 x float> %v19 to <64 x i32>
  %v22 = select <64 x i1> %v20, <64 x i32> splat (i32 2143289344), <64 x i32> %v21
  %v23 = bitcast <64 x i32> %v22 to <64 x float>
  %v24 = bitcast <64 x float> %v23 to <64 x i32>
  store <64 x i32> %v24, ptr %dst, align 1
  %v25 = getelementptr i8, ptr %dst, i64 256
  %v26 = call <64 x i32> @llvm.masked.load.v64i32.p0(ptr %v25, i32 1, <64 x i1> <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>, <64 x i32> zeroinitializer)
  %v27 = sitofp <64 x i8> %v9 to <64 x float>
  %v28 = insertelement <64 x float> poison, float %v1, i64 0
  %v29 = shufflevector <64 x float> %v28, <64 x float> %v28, <64 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v30 = fmul <64 x float> %v29, %v27
  %v31 = insertelement <64 x float> poison, float %v3, i64 0
  %v32 = shufflevector <64 x float> %v31, <64 x float> %v31, <64 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v33 = bitcast <64 x i32> %v26 to <64 x float>
  %v34 = fmul <64 x float> %v32, %v33
  %v35 = fadd <64 x float> %v30, %v34
  %v36 = fcmp uno <64 x float> %v35, %v35
  %v37 = bitcast <64 x float> %v35 to <64 x i32>
  %v38 = select <64 x i1> %v36, <64 x i32> splat (i32 2143289344), <64 x i32> %v37
  %v39 = bitcast <64 x i32> %v38 to <64 x float>
  %v40 = bitcast <64 x float> %v39 to <64 x i32>
  %v41 = select <64 x i1> <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>, <64 x i32> %v40, <64 x i32> zeroinitializer
  %v42 = getelementptr i8, ptr %dst, i64 256
  call void @llvm.masked.store.v64i32.p0(<64 x i32> %v41, ptr %v42, i32 1, <64 x i1> <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>)
  br label %v5
v5:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
!0 = !{i32 1}

; --- avx2
; copy (one axis is contiguous on both sides): tile 100 of 100; grid []; inner axes []
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v1 = load float, ptr %params, align 4
  %v2 = getelementptr i8, ptr %params, i64 4
  %v3 = load float, ptr %v2, align 4
  %v6 = icmp eq i64 %part, 0
  br i1 %v6, label %v4, label %v5
v4:
  %v7 = load <32 x i8>, ptr %src, align 1
  %v8 = getelementptr i8, ptr %src, i64 32
  %v9 = load <32 x i8>, ptr %v8, align 1
  %v10 = getelementptr i8, ptr %src, i64 64
  %v11 = load <32 x i8>, ptr %v10, align 1
  %v12 = getelementptr i8, ptr %src, i64 96
  %v13 = getelementptr i8, ptr %src, i64 96
  %v14 = load <4 x i8>, ptr %v13, align 1
  %v15 = shufflevector <4 x i8> %v14, <4 x i8> %v14, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v16 = shufflevector <32 x i8> zeroinitializer, <32 x i8> %v15, <32 x i32> <i32 32, i32 33, i32 34, i32 35, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %v17 = load <32 x i32>, ptr %dst, align 1
  %v18 = sitofp <32 x i8> %v7 to <32 x float>
  %v19 = insertelement <32 x float> poison, float %v1, i64 0
  %v20 = shufflevector <32 x float> %v19, <32 x float> %v19, <32 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v21 = fmul <32 x float> %v20, %v18
  %v22 = insertelement <32 x float> poison, float %v3, i64 0
  %v23 = shufflevector <32 x float> %v22, <32 x float> %v22, <32 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v24 = bitcast <32 x i32> %v17 to <32 x float>
  %v25 = fmul <32 x float> %v23, %v24
  %v26 = fadd <32 x float> %v21, %v25
  %v27 = fcmp uno <32 x float> %v26, %v26
  %v28 = bitcast <32 x float> %v26 to <32 x i32>
  %v29 = select <32 x i1> %v27, <32 x i32> splat (i32 2143289344), <32 x i32> %v28
  %v30 = bitcast <32 x i32> %v29 to <32 x float>
  %v31 = bitcast <32 x float> %v30 to <32 x i32>
  store <32 x i32> %v31, ptr %dst, align 1
  %v32 = getelementptr i8, ptr %dst, i64 128
  %v33 = load <32 x i32>, ptr %v32, align 1
  %v34 = sitofp <32 x i8> %v9 to <32 x float>
  %v35 = insertelement <32 x float> poison, float %v1, i64 0
  %v36 = shufflevector <32 x float> %v35, <32 x float> %v35, <32 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v37 = fmul <32 x float> %v36, %v34
  %v38 = insertelement <32 x float> poison, float %v3, i64 0
  %v39 = shufflevector <32 x float> %v38, <32 x float> %v38, <32 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v40 = bitcast <32 x i32> %v33 to <32 x float>
  %v41 = fmul <32 x float> %v39, %v40
  %v42 = fadd <32 x float> %v37, %v41
  %v43 = fcmp uno <32 x float> %v42, %v42
  %v44 = bitcast <32 x float> %v42 to <32 x i32>
  %v45 = select <32 x i1> %v43, <32 x i32> splat (i32 2143289344), <32 x i32> %v44
  %v46 = bitcast <32 x i32> %v45 to <32 x float>
  %v47 = bitcast <32 x float> %v46 to <32 x i32>
  %v48 = getelementptr i8, ptr %dst, i64 128
  %v49 = getelementptr i8, ptr %dst, i64 128
  store <32 x i32> %v47, ptr %v49, align 1
  %v50 = getelementptr i8, ptr %dst, i64 256
  %v51 = load <32 x i32>, ptr %v50, align 1
  %v52 = sitofp <32 x i8> %v11 to <32 x float>
  %v53 = insertelement <32 x float> poison, float %v1, i64 0
  %v54 = shufflevector <32 x float> %v53, <32 x float> %v53, <32 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v55 = fmul <32 x float> %v54, %v52
  %v56 = insertelement <32 x float> poison, float %v3, i64 0
  %v57 = shufflevector <32 x float> %v56, <32 x float> %v56, <32 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v58 = bitcast <32 x i32> %v51 to <32 x float>
  %v59 = fmul <32 x float> %v57, %v58
  %v60 = fadd <32 x float> %v55, %v59
  %v61 = fcmp uno <32 x float> %v60, %v60
  %v62 = bitcast <32 x float> %v60 to <32 x i32>
  %v63 = select <32 x i1> %v61, <32 x i32> splat (i32 2143289344), <32 x i32> %v62
  %v64 = bitcast <32 x i32> %v63 to <32 x float>
  %v65 = bitcast <32 x float> %v64 to <32 x i32>
  %v66 = getelementptr i8, ptr %dst, i64 256
  %v67 = getelementptr i8, ptr %dst, i64 256
  store <32 x i32> %v65, ptr %v67, align 1
  %v68 = getelementptr i8, ptr %dst, i64 384
  %v69 = getelementptr i8, ptr %dst, i64 384
  %v70 = load <4 x i32>, ptr %v69, align 1
  %v71 = shufflevector <4 x i32> %v70, <4 x i32> %v70, <32 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v72 = shufflevector <32 x i32> zeroinitializer, <32 x i32> %v71, <32 x i32> <i32 32, i32 33, i32 34, i32 35, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %v73 = sitofp <32 x i8> %v16 to <32 x float>
  %v74 = insertelement <32 x float> poison, float %v1, i64 0
  %v75 = shufflevector <32 x float> %v74, <32 x float> %v74, <32 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v76 = fmul <32 x float> %v75, %v73
  %v77 = insertelement <32 x float> poison, float %v3, i64 0
  %v78 = shufflevector <32 x float> %v77, <32 x float> %v77, <32 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v79 = bitcast <32 x i32> %v72 to <32 x float>
  %v80 = fmul <32 x float> %v78, %v79
  %v81 = fadd <32 x float> %v76, %v80
  %v82 = fcmp uno <32 x float> %v81, %v81
  %v83 = bitcast <32 x float> %v81 to <32 x i32>
  %v84 = select <32 x i1> %v82, <32 x i32> splat (i32 2143289344), <32 x i32> %v83
  %v85 = bitcast <32 x i32> %v84 to <32 x float>
  %v86 = bitcast <32 x float> %v85 to <32 x i32>
  %v87 = select <32 x i1> <i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>, <32 x i32> %v86, <32 x i32> zeroinitializer
  %v88 = getelementptr i8, ptr %dst, i64 384
  %v89 = shufflevector <32 x i32> %v87, <32 x i32> %v87, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v90 = getelementptr i8, ptr %dst, i64 384
  store <4 x i32> %v89, ptr %v90, align 1
  br label %v5
v5:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
!0 = !{i32 1}

; --- neon
; copy (one axis is contiguous on both sides): tile 64 of 100; grid []; inner axes [0]
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v1 = load float, ptr %params, align 4
  %v2 = getelementptr i8, ptr %params, i64 4
  %v3 = load float, ptr %v2, align 4
  %v6 = icmp eq i64 %part, 0
  br i1 %v6, label %v4, label %v5
v4:
  %v7 = load <16 x i8>, ptr %src, align 1
  %v8 = getelementptr i8, ptr %src, i64 16
  %v9 = load <16 x i8>, ptr %v8, align 1
  %v10 = getelementptr i8, ptr %src, i64 32
  %v11 = load <16 x i8>, ptr %v10, align 1
  %v12 = getelementptr i8, ptr %src, i64 48
  %v13 = load <16 x i8>, ptr %v12, align 1
  %v14 = load <16 x i32>, ptr %dst, align 1
  %v15 = sitofp <16 x i8> %v7 to <16 x float>
  %v16 = insertelement <16 x float> poison, float %v1, i64 0
  %v17 = shufflevector <16 x float> %v16, <16 x float> %v16, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v18 = fmul <16 x float> %v17, %v15
  %v19 = insertelement <16 x float> poison, float %v3, i64 0
  %v20 = shufflevector <16 x float> %v19, <16 x float> %v19, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v21 = bitcast <16 x i32> %v14 to <16 x float>
  %v22 = fmul <16 x float> %v20, %v21
  %v23 = fadd <16 x float> %v18, %v22
  %v24 = fcmp uno <16 x float> %v23, %v23
  %v25 = bitcast <16 x float> %v23 to <16 x i32>
  %v26 = select <16 x i1> %v24, <16 x i32> splat (i32 2143289344), <16 x i32> %v25
  %v27 = bitcast <16 x i32> %v26 to <16 x float>
  %v28 = bitcast <16 x float> %v27 to <16 x i32>
  store <16 x i32> %v28, ptr %dst, align 1
  %v29 = getelementptr i8, ptr %dst, i64 64
  %v30 = load <16 x i32>, ptr %v29, align 1
  %v31 = sitofp <16 x i8> %v9 to <16 x float>
  %v32 = insertelement <16 x float> poison, float %v1, i64 0
  %v33 = shufflevector <16 x float> %v32, <16 x float> %v32, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v34 = fmul <16 x float> %v33, %v31
  %v35 = insertelement <16 x float> poison, float %v3, i64 0
  %v36 = shufflevector <16 x float> %v35, <16 x float> %v35, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v37 = bitcast <16 x i32> %v30 to <16 x float>
  %v38 = fmul <16 x float> %v36, %v37
  %v39 = fadd <16 x float> %v34, %v38
  %v40 = fcmp uno <16 x float> %v39, %v39
  %v41 = bitcast <16 x float> %v39 to <16 x i32>
  %v42 = select <16 x i1> %v40, <16 x i32> splat (i32 2143289344), <16 x i32> %v41
  %v43 = bitcast <16 x i32> %v42 to <16 x float>
  %v44 = bitcast <16 x float> %v43 to <16 x i32>
  %v45 = getelementptr i8, ptr %dst, i64 64
  %v46 = getelementptr i8, ptr %dst, i64 64
  store <16 x i32> %v44, ptr %v46, align 1
  %v47 = getelementptr i8, ptr %dst, i64 128
  %v48 = load <16 x i32>, ptr %v47, align 1
  %v49 = sitofp <16 x i8> %v11 to <16 x float>
  %v50 = insertelement <16 x float> poison, float %v1, i64 0
  %v51 = shufflevector <16 x float> %v50, <16 x float> %v50, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v52 = fmul <16 x float> %v51, %v49
  %v53 = insertelement <16 x float> poison, float %v3, i64 0
  %v54 = shufflevector <16 x float> %v53, <16 x float> %v53, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v55 = bitcast <16 x i32> %v48 to <16 x float>
  %v56 = fmul <16 x float> %v54, %v55
  %v57 = fadd <16 x float> %v52, %v56
  %v58 = fcmp uno <16 x float> %v57, %v57
  %v59 = bitcast <16 x float> %v57 to <16 x i32>
  %v60 = select <16 x i1> %v58, <16 x i32> splat (i32 2143289344), <16 x i32> %v59
  %v61 = bitcast <16 x i32> %v60 to <16 x float>
  %v62 = bitcast <16 x float> %v61 to <16 x i32>
  %v63 = getelementptr i8, ptr %dst, i64 128
  %v64 = getelementptr i8, ptr %dst, i64 128
  store <16 x i32> %v62, ptr %v64, align 1
  %v65 = getelementptr i8, ptr %dst, i64 192
  %v66 = load <16 x i32>, ptr %v65, align 1
  %v67 = sitofp <16 x i8> %v13 to <16 x float>
  %v68 = insertelement <16 x float> poison, float %v1, i64 0
  %v69 = shufflevector <16 x float> %v68, <16 x float> %v68, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v70 = fmul <16 x float> %v69, %v67
  %v71 = insertelement <16 x float> poison, float %v3, i64 0
  %v72 = shufflevector <16 x float> %v71, <16 x float> %v71, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v73 = bitcast <16 x i32> %v66 to <16 x float>
  %v74 = fmul <16 x float> %v72, %v73
  %v75 = fadd <16 x float> %v70, %v74
  %v76 = fcmp uno <16 x float> %v75, %v75
  %v77 = bitcast <16 x float> %v75 to <16 x i32>
  %v78 = select <16 x i1> %v76, <16 x i32> splat (i32 2143289344), <16 x i32> %v77
  %v79 = bitcast <16 x i32> %v78 to <16 x float>
  %v80 = bitcast <16 x float> %v79 to <16 x i32>
  %v81 = getelementptr i8, ptr %dst, i64 192
  %v82 = getelementptr i8, ptr %dst, i64 192
  store <16 x i32> %v80, ptr %v82, align 1
  %v83 = getelementptr i8, ptr %src, i64 64
  %v84 = getelementptr i8, ptr %dst, i64 256
  %v85 = load <16 x i8>, ptr %v83, align 1
  %v86 = getelementptr i8, ptr %v83, i64 16
  %v87 = load <16 x i8>, ptr %v86, align 1
  %v88 = getelementptr i8, ptr %v83, i64 32
  %v89 = getelementptr i8, ptr %v83, i64 32
  %v90 = load <4 x i8>, ptr %v89, align 1
  %v91 = shufflevector <4 x i8> %v90, <4 x i8> %v90, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v92 = shufflevector <16 x i8> zeroinitializer, <16 x i8> %v91, <16 x i32> <i32 16, i32 17, i32 18, i32 19, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v93 = load <16 x i32>, ptr %v84, align 1
  %v94 = sitofp <16 x i8> %v85 to <16 x float>
  %v95 = insertelement <16 x float> poison, float %v1, i64 0
  %v96 = shufflevector <16 x float> %v95, <16 x float> %v95, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v97 = fmul <16 x float> %v96, %v94
  %v98 = insertelement <16 x float> poison, float %v3, i64 0
  %v99 = shufflevector <16 x float> %v98, <16 x float> %v98, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v100 = bitcast <16 x i32> %v93 to <16 x float>
  %v101 = fmul <16 x float> %v99, %v100
  %v102 = fadd <16 x float> %v97, %v101
  %v103 = fcmp uno <16 x float> %v102, %v102
  %v104 = bitcast <16 x float> %v102 to <16 x i32>
  %v105 = select <16 x i1> %v103, <16 x i32> splat (i32 2143289344), <16 x i32> %v104
  %v106 = bitcast <16 x i32> %v105 to <16 x float>
  %v107 = bitcast <16 x float> %v106 to <16 x i32>
  store <16 x i32> %v107, ptr %v84, align 1
  %v108 = getelementptr i8, ptr %v84, i64 64
  %v109 = load <16 x i32>, ptr %v108, align 1
  %v110 = sitofp <16 x i8> %v87 to <16 x float>
  %v111 = insertelement <16 x float> poison, float %v1, i64 0
  %v112 = shufflevector <16 x float> %v111, <16 x float> %v111, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v113 = fmul <16 x float> %v112, %v110
  %v114 = insertelement <16 x float> poison, float %v3, i64 0
  %v115 = shufflevector <16 x float> %v114, <16 x float> %v114, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v116 = bitcast <16 x i32> %v109 to <16 x float>
  %v117 = fmul <16 x float> %v115, %v116
  %v118 = fadd <16 x float> %v113, %v117
  %v119 = fcmp uno <16 x float> %v118, %v118
  %v120 = bitcast <16 x float> %v118 to <16 x i32>
  %v121 = select <16 x i1> %v119, <16 x i32> splat (i32 2143289344), <16 x i32> %v120
  %v122 = bitcast <16 x i32> %v121 to <16 x float>
  %v123 = bitcast <16 x float> %v122 to <16 x i32>
  %v124 = getelementptr i8, ptr %v84, i64 64
  %v125 = getelementptr i8, ptr %v84, i64 64
  store <16 x i32> %v123, ptr %v125, align 1
  %v126 = getelementptr i8, ptr %v84, i64 128
  %v127 = getelementptr i8, ptr %v84, i64 128
  %v128 = load <4 x i32>, ptr %v127, align 1
  %v129 = shufflevector <4 x i32> %v128, <4 x i32> %v128, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v130 = shufflevector <16 x i32> zeroinitializer, <16 x i32> %v129, <16 x i32> <i32 16, i32 17, i32 18, i32 19, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v131 = sitofp <16 x i8> %v92 to <16 x float>
  %v132 = insertelement <16 x float> poison, float %v1, i64 0
  %v133 = shufflevector <16 x float> %v132, <16 x float> %v132, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v134 = fmul <16 x float> %v133, %v131
  %v135 = insertelement <16 x float> poison, float %v3, i64 0
  %v136 = shufflevector <16 x float> %v135, <16 x float> %v135, <16 x i32> <i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0, i32 0>
  %v137 = bitcast <16 x i32> %v130 to <16 x float>
  %v138 = fmul <16 x float> %v136, %v137
  %v139 = fadd <16 x float> %v134, %v138
  %v140 = fcmp uno <16 x float> %v139, %v139
  %v141 = bitcast <16 x float> %v139 to <16 x i32>
  %v142 = select <16 x i1> %v140, <16 x i32> splat (i32 2143289344), <16 x i32> %v141
  %v143 = bitcast <16 x i32> %v142 to <16 x float>
  %v144 = bitcast <16 x float> %v143 to <16 x i32>
  %v145 = select <16 x i1> <i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>, <16 x i32> %v144, <16 x i32> zeroinitializer
  %v146 = getelementptr i8, ptr %v84, i64 128
  %v147 = shufflevector <16 x i32> %v145, <16 x i32> %v145, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v148 = getelementptr i8, ptr %v84, i64 128
  store <4 x i32> %v147, ptr %v148, align 1
  br label %v5
v5:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
!0 = !{i32 1}
