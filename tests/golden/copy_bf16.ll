; src f32 + 0, dst bf16 + 0
; for 1000: src += 1, dst += 1
;   dst = bf16(src)

; --- avx512
; copy (one axis is contiguous on both sides): tile 128 of 1000; grid []; inner axes [0]
declare <32 x i32> @llvm.masked.load.v32i32.p0(ptr, i32, <32 x i1>, <32 x i32>)
declare void @llvm.masked.store.v32i16.p0(<32 x i16>, ptr, i32, <32 x i1>)
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v3 = icmp eq i64 %part, 0
  br i1 %v3, label %v1, label %v2
v1:
  %v8 = icmp slt i64 0, 7
  br i1 %v8, label %v4, label %v5
v4:
  %v6 = phi i64 [ 0, %v1 ], [ %v7, %v4 ]
  %v9 = mul i64 %v6, 512
  %v10 = getelementptr i8, ptr %src, i64 %v9
  %v11 = mul i64 %v6, 256
  %v12 = getelementptr i8, ptr %dst, i64 %v11
  %v13 = load <32 x i32>, ptr %v10, align 1
  %v14 = bitcast <32 x i32> %v13 to <32 x float>
  %v15 = bitcast <32 x float> %v14 to <32 x i32>
  %v16 = lshr <32 x i32> %v15, splat (i32 16)
  %v17 = and <32 x i32> %v16, splat (i32 1)
  %v18 = add <32 x i32> %v17, splat (i32 32767)
  %v19 = add <32 x i32> %v15, %v18
  %v20 = lshr <32 x i32> %v19, splat (i32 16)
  %v21 = and <32 x i32> %v15, splat (i32 2147483647)
  %v22 = icmp ugt <32 x i32> %v21, splat (i32 2139095040)
  %v23 = or <32 x i32> %v16, splat (i32 64)
  %v24 = select <32 x i1> %v22, <32 x i32> %v23, <32 x i32> %v20
  %v25 = trunc <32 x i32> %v24 to <32 x i16>
  %v26 = getelementptr i8, ptr %v10, i64 128
  %v27 = load <32 x i32>, ptr %v26, align 1
  %v28 = bitcast <32 x i32> %v27 to <32 x float>
  %v29 = bitcast <32 x float> %v28 to <32 x i32>
  %v30 = lshr <32 x i32> %v29, splat (i32 16)
  %v31 = and <32 x i32> %v30, splat (i32 1)
  %v32 = add <32 x i32> %v31, splat (i32 32767)
  %v33 = add <32 x i32> %v29, %v32
  %v34 = lshr <32 x i32> %v33, splat (i32 16)
  %v35 = and <32 x i32> %v29, splat (i32 2147483647)
  %v36 = icmp ugt <32 x i32> %v35, splat (i32 2139095040)
  %v37 = or <32 x i32> %v30, splat (i32 64)
  %v38 = select <32 x i1> %v36, <32 x i32> %v37, <32 x i32> %v34
  %v39 = trunc <32 x i32> %v38 to <32 x i16>
  %v40 = getelementptr i8, ptr %v10, i64 256
  %v41 = load <32 x i32>, ptr %v40, align 1
  %v42 = bitcast <32 x i32> %v41 to <32 x float>
  %v43 = bitcast <32 x float> %v42 to <32 x i32>
  %v44 = lshr <32 x i32> %v43, splat (i32 16)
  %v45 = and <32 x i32> %v44, splat (i32 1)
  %v46 = add <32 x i32> %v45, splat (i32 32767)
  %v47 = add <32 x i32> %v43, %v46
  %v48 = lshr <32 x i32> %v47, splat (i32 16)
  %v49 = and <32 x i32> %v43, splat (i32 2147483647)
  %v50 = icmp ugt <32 x i32> %v49, splat (i32 2139095040)
  %v51 = or <32 x i32> %v44, splat (i32 64)
  %v52 = select <32 x i1> %v50, <32 x i32> %v51, <32 x i32> %v48
  %v53 = trunc <32 x i32> %v52 to <32 x i16>
  %v54 = getelementptr i8, ptr %v10, i64 384
  %v55 = load <32 x i32>, ptr %v54, align 1
  %v56 = bitcast <32 x i32> %v55 to <32 x float>
  %v57 = bitcast <32 x float> %v56 to <32 x i32>
  %v58 = lshr <32 x i32> %v57, splat (i32 16)
  %v59 = and <32 x i32> %v58, splat (i32 1)
  %v60 = add <32 x i32> %v59, splat (i32 32767)
  %v61 = add <32 x i32> %v57, %v60
  %v62 = lshr <32 x i32> %v61, splat (i32 16)
  %v63 = and <32 x i32> %v57, splat (i32 2147483647)
  %v64 = icmp ugt <32 x i32> %v63, splat (i32 2139095040)
  %v65 = or <32 x i32> %v58, splat (i32 64)
  %v66 = select <32 x i1> %v64, <32 x i32> %v65, <32 x i32> %v62
  %v67 = trunc <32 x i32> %v66 to <32 x i16>
  store <32 x i16> %v25, ptr %v12, align 1
  %v68 = getelementptr i8, ptr %v12, i64 64
  %v69 = getelementptr i8, ptr %v12, i64 64
  store <32 x i16> %v39, ptr %v69, align 1
  %v70 = getelementptr i8, ptr %v12, i64 128
  %v71 = getelementptr i8, ptr %v12, i64 128
  store <32 x i16> %v53, ptr %v71, align 1
  %v72 = getelementptr i8, ptr %v12, i64 192
  %v73 = getelementptr i8, ptr %v12, i64 192
  store <32 x i16> %v67, ptr %v73, align 1
  %v7 = add nuw nsw i64 %v6, 1
  %v74 = icmp slt i64 %v7, 7
  br i1 %v74, label %v4, label %v5
v5:
  %v75 = getelementptr i8, ptr %src, i64 3584
  %v76 = getelementptr i8, ptr %dst, i64 1792
  %v77 = load <32 x i32>, ptr %v75, align 1
  %v78 = bitcast <32 x i32> %v77 to <32 x float>
  %v79 = bitcast <32 x float> %v78 to <32 x i32>
  %v80 = lshr <32 x i32> %v79, splat (i32 16)
  %v81 = and <32 x i32> %v80, splat (i32 1)
  %v82 = add <32 x i32> %v81, splat (i32 32767)
  %v83 = add <32 x i32> %v79, %v82
  %v84 = lshr <32 x i32> %v83, splat (i32 16)
  %v85 = and <32 x i32> %v79, splat (i32 2147483647)
  %v86 = icmp ugt <32 x i32> %v85, splat (i32 2139095040)
  %v87 = or <32 x i32> %v80, splat (i32 64)
  %v88 = select <32 x i1> %v86, <32 x i32> %v87, <32 x i32> %v84
  %v89 = trunc <32 x i32> %v88 to <32 x i16>
  %v90 = getelementptr i8, ptr %v75, i64 128
  %v91 = load <32 x i32>, ptr %v90, align 1
  %v92 = bitcast <32 x i32> %v91 to <32 x float>
  %v93 = bitcast <32 x float> %v92 to <32 x i32>
  %v94 = lshr <32 x i32> %v93, splat (i32 16)
  %v95 = and <32 x i32> %v94, splat (i32 1)
  %v96 = add <32 x i32> %v95, splat (i32 32767)
  %v97 = add <32 x i32> %v93, %v96
  %v98 = lshr <32 x i32> %v97, splat (i32 16)
  %v99 = and <32 x i32> %v93, splat (i32 2147483647)
  %v100 = icmp ugt <32 x i32> %v99, splat (i32 2139095040)
  %v101 = or <32 x i32> %v94, splat (i32 64)
  %v102 = select <32 x i1> %v100, <32 x i32> %v101, <32 x i32> %v98
  %v103 = trunc <32 x i32> %v102 to <32 x i16>
  %v104 = getelementptr i8, ptr %v75, i64 256
  %v105 = load <32 x i32>, ptr %v104, align 1
  %v106 = bitcast <32 x i32> %v105 to <32 x float>
  %v107 = bitcast <32 x float> %v106 to <32 x i32>
  %v108 = lshr <32 x i32> %v107, splat (i32 16)
  %v109 = and <32 x i32> %v108, splat (i32 1)
  %v110 = add <32 x i32> %v109, splat (i32 32767)
  %v111 = add <32 x i32> %v107, %v110
  %v112 = lshr <32 x i32> %v111, splat (i32 16)
  %v113 = and <32 x i32> %v107, splat (i32 2147483647)
  %v114 = icmp ugt <32 x i32> %v113, splat (i32 2139095040)
  %v115 = or <32 x i32> %v108, splat (i32 64)
  %v116 = select <32 x i1> %v114, <32 x i32> %v115, <32 x i32> %v112
  %v117 = trunc <32 x i32> %v116 to <32 x i16>
  %v118 = getelementptr i8, ptr %v75, i64 384
  %v119 = call <32 x i32> @llvm.masked.load.v32i32.p0(ptr %v118, i32 1, <32 x i1> <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>, <32 x i32> zeroinitializer)
  %v120 = bitcast <32 x i32> %v119 to <32 x float>
  %v121 = bitcast <32 x float> %v120 to <32 x i32>
  %v122 = lshr <32 x i32> %v121, splat (i32 16)
  %v123 = and <32 x i32> %v122, splat (i32 1)
  %v124 = add <32 x i32> %v123, splat (i32 32767)
  %v125 = add <32 x i32> %v121, %v124
  %v126 = lshr <32 x i32> %v125, splat (i32 16)
  %v127 = and <32 x i32> %v121, splat (i32 2147483647)
  %v128 = icmp ugt <32 x i32> %v127, splat (i32 2139095040)
  %v129 = or <32 x i32> %v122, splat (i32 64)
  %v130 = select <32 x i1> %v128, <32 x i32> %v129, <32 x i32> %v126
  %v131 = trunc <32 x i32> %v130 to <32 x i16>
  store <32 x i16> %v89, ptr %v76, align 1
  %v132 = getelementptr i8, ptr %v76, i64 64
  %v133 = getelementptr i8, ptr %v76, i64 64
  store <32 x i16> %v103, ptr %v133, align 1
  %v134 = getelementptr i8, ptr %v76, i64 128
  %v135 = getelementptr i8, ptr %v76, i64 128
  store <32 x i16> %v117, ptr %v135, align 1
  %v136 = getelementptr i8, ptr %v76, i64 192
  call void @llvm.masked.store.v32i16.p0(<32 x i16> %v131, ptr %v136, i32 1, <32 x i1> <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>)
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
; copy (one axis is contiguous on both sides): tile 64 of 1000; grid []; inner axes [0]
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v3 = icmp eq i64 %part, 0
  br i1 %v3, label %v1, label %v2
v1:
  %v8 = icmp slt i64 0, 15
  br i1 %v8, label %v4, label %v5
v4:
  %v6 = phi i64 [ 0, %v1 ], [ %v7, %v4 ]
  %v9 = mul i64 %v6, 256
  %v10 = getelementptr i8, ptr %src, i64 %v9
  %v11 = mul i64 %v6, 128
  %v12 = getelementptr i8, ptr %dst, i64 %v11
  %v13 = load <16 x i32>, ptr %v10, align 1
  %v14 = bitcast <16 x i32> %v13 to <16 x float>
  %v15 = bitcast <16 x float> %v14 to <16 x i32>
  %v16 = lshr <16 x i32> %v15, splat (i32 16)
  %v17 = and <16 x i32> %v16, splat (i32 1)
  %v18 = add <16 x i32> %v17, splat (i32 32767)
  %v19 = add <16 x i32> %v15, %v18
  %v20 = lshr <16 x i32> %v19, splat (i32 16)
  %v21 = and <16 x i32> %v15, splat (i32 2147483647)
  %v22 = icmp ugt <16 x i32> %v21, splat (i32 2139095040)
  %v23 = or <16 x i32> %v16, splat (i32 64)
  %v24 = select <16 x i1> %v22, <16 x i32> %v23, <16 x i32> %v20
  %v25 = trunc <16 x i32> %v24 to <16 x i16>
  %v26 = getelementptr i8, ptr %v10, i64 64
  %v27 = load <16 x i32>, ptr %v26, align 1
  %v28 = bitcast <16 x i32> %v27 to <16 x float>
  %v29 = bitcast <16 x float> %v28 to <16 x i32>
  %v30 = lshr <16 x i32> %v29, splat (i32 16)
  %v31 = and <16 x i32> %v30, splat (i32 1)
  %v32 = add <16 x i32> %v31, splat (i32 32767)
  %v33 = add <16 x i32> %v29, %v32
  %v34 = lshr <16 x i32> %v33, splat (i32 16)
  %v35 = and <16 x i32> %v29, splat (i32 2147483647)
  %v36 = icmp ugt <16 x i32> %v35, splat (i32 2139095040)
  %v37 = or <16 x i32> %v30, splat (i32 64)
  %v38 = select <16 x i1> %v36, <16 x i32> %v37, <16 x i32> %v34
  %v39 = trunc <16 x i32> %v38 to <16 x i16>
  %v40 = getelementptr i8, ptr %v10, i64 128
  %v41 = load <16 x i32>, ptr %v40, align 1
  %v42 = bitcast <16 x i32> %v41 to <16 x float>
  %v43 = bitcast <16 x float> %v42 to <16 x i32>
  %v44 = lshr <16 x i32> %v43, splat (i32 16)
  %v45 = and <16 x i32> %v44, splat (i32 1)
  %v46 = add <16 x i32> %v45, splat (i32 32767)
  %v47 = add <16 x i32> %v43, %v46
  %v48 = lshr <16 x i32> %v47, splat (i32 16)
  %v49 = and <16 x i32> %v43, splat (i32 2147483647)
  %v50 = icmp ugt <16 x i32> %v49, splat (i32 2139095040)
  %v51 = or <16 x i32> %v44, splat (i32 64)
  %v52 = select <16 x i1> %v50, <16 x i32> %v51, <16 x i32> %v48
  %v53 = trunc <16 x i32> %v52 to <16 x i16>
  %v54 = getelementptr i8, ptr %v10, i64 192
  %v55 = load <16 x i32>, ptr %v54, align 1
  %v56 = bitcast <16 x i32> %v55 to <16 x float>
  %v57 = bitcast <16 x float> %v56 to <16 x i32>
  %v58 = lshr <16 x i32> %v57, splat (i32 16)
  %v59 = and <16 x i32> %v58, splat (i32 1)
  %v60 = add <16 x i32> %v59, splat (i32 32767)
  %v61 = add <16 x i32> %v57, %v60
  %v62 = lshr <16 x i32> %v61, splat (i32 16)
  %v63 = and <16 x i32> %v57, splat (i32 2147483647)
  %v64 = icmp ugt <16 x i32> %v63, splat (i32 2139095040)
  %v65 = or <16 x i32> %v58, splat (i32 64)
  %v66 = select <16 x i1> %v64, <16 x i32> %v65, <16 x i32> %v62
  %v67 = trunc <16 x i32> %v66 to <16 x i16>
  store <16 x i16> %v25, ptr %v12, align 1
  %v68 = getelementptr i8, ptr %v12, i64 32
  %v69 = getelementptr i8, ptr %v12, i64 32
  store <16 x i16> %v39, ptr %v69, align 1
  %v70 = getelementptr i8, ptr %v12, i64 64
  %v71 = getelementptr i8, ptr %v12, i64 64
  store <16 x i16> %v53, ptr %v71, align 1
  %v72 = getelementptr i8, ptr %v12, i64 96
  %v73 = getelementptr i8, ptr %v12, i64 96
  store <16 x i16> %v67, ptr %v73, align 1
  %v7 = add nuw nsw i64 %v6, 1
  %v74 = icmp slt i64 %v7, 15
  br i1 %v74, label %v4, label %v5
v5:
  %v75 = getelementptr i8, ptr %src, i64 3840
  %v76 = getelementptr i8, ptr %dst, i64 1920
  %v77 = load <16 x i32>, ptr %v75, align 1
  %v78 = bitcast <16 x i32> %v77 to <16 x float>
  %v79 = bitcast <16 x float> %v78 to <16 x i32>
  %v80 = lshr <16 x i32> %v79, splat (i32 16)
  %v81 = and <16 x i32> %v80, splat (i32 1)
  %v82 = add <16 x i32> %v81, splat (i32 32767)
  %v83 = add <16 x i32> %v79, %v82
  %v84 = lshr <16 x i32> %v83, splat (i32 16)
  %v85 = and <16 x i32> %v79, splat (i32 2147483647)
  %v86 = icmp ugt <16 x i32> %v85, splat (i32 2139095040)
  %v87 = or <16 x i32> %v80, splat (i32 64)
  %v88 = select <16 x i1> %v86, <16 x i32> %v87, <16 x i32> %v84
  %v89 = trunc <16 x i32> %v88 to <16 x i16>
  %v90 = getelementptr i8, ptr %v75, i64 64
  %v91 = load <16 x i32>, ptr %v90, align 1
  %v92 = bitcast <16 x i32> %v91 to <16 x float>
  %v93 = bitcast <16 x float> %v92 to <16 x i32>
  %v94 = lshr <16 x i32> %v93, splat (i32 16)
  %v95 = and <16 x i32> %v94, splat (i32 1)
  %v96 = add <16 x i32> %v95, splat (i32 32767)
  %v97 = add <16 x i32> %v93, %v96
  %v98 = lshr <16 x i32> %v97, splat (i32 16)
  %v99 = and <16 x i32> %v93, splat (i32 2147483647)
  %v100 = icmp ugt <16 x i32> %v99, splat (i32 2139095040)
  %v101 = or <16 x i32> %v94, splat (i32 64)
  %v102 = select <16 x i1> %v100, <16 x i32> %v101, <16 x i32> %v98
  %v103 = trunc <16 x i32> %v102 to <16 x i16>
  %v104 = getelementptr i8, ptr %v75, i64 128
  %v105 = getelementptr i8, ptr %v75, i64 128
  %v106 = load <8 x i32>, ptr %v105, align 1
  %v107 = shufflevector <8 x i32> %v106, <8 x i32> %v106, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v108 = shufflevector <16 x i32> zeroinitializer, <16 x i32> %v107, <16 x i32> <i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v109 = bitcast <16 x i32> %v108 to <16 x float>
  %v110 = bitcast <16 x float> %v109 to <16 x i32>
  %v111 = lshr <16 x i32> %v110, splat (i32 16)
  %v112 = and <16 x i32> %v111, splat (i32 1)
  %v113 = add <16 x i32> %v112, splat (i32 32767)
  %v114 = add <16 x i32> %v110, %v113
  %v115 = lshr <16 x i32> %v114, splat (i32 16)
  %v116 = and <16 x i32> %v110, splat (i32 2147483647)
  %v117 = icmp ugt <16 x i32> %v116, splat (i32 2139095040)
  %v118 = or <16 x i32> %v111, splat (i32 64)
  %v119 = select <16 x i1> %v117, <16 x i32> %v118, <16 x i32> %v115
  %v120 = trunc <16 x i32> %v119 to <16 x i16>
  store <16 x i16> %v89, ptr %v76, align 1
  %v121 = getelementptr i8, ptr %v76, i64 32
  %v122 = getelementptr i8, ptr %v76, i64 32
  store <16 x i16> %v103, ptr %v122, align 1
  %v123 = getelementptr i8, ptr %v76, i64 64
  %v124 = shufflevector <16 x i16> %v120, <16 x i16> %v120, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v125 = getelementptr i8, ptr %v76, i64 64
  store <8 x i16> %v124, ptr %v125, align 1
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
; copy (one axis is contiguous on both sides): tile 32 of 1000; grid []; inner axes [0]
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v3 = icmp eq i64 %part, 0
  br i1 %v3, label %v1, label %v2
v1:
  %v8 = icmp slt i64 0, 31
  br i1 %v8, label %v4, label %v5
v4:
  %v6 = phi i64 [ 0, %v1 ], [ %v7, %v4 ]
  %v9 = mul i64 %v6, 128
  %v10 = getelementptr i8, ptr %src, i64 %v9
  %v11 = mul i64 %v6, 64
  %v12 = getelementptr i8, ptr %dst, i64 %v11
  %v13 = load <8 x i32>, ptr %v10, align 1
  %v14 = bitcast <8 x i32> %v13 to <8 x float>
  %v15 = bitcast <8 x float> %v14 to <8 x i32>
  %v16 = lshr <8 x i32> %v15, splat (i32 16)
  %v17 = and <8 x i32> %v16, splat (i32 1)
  %v18 = add <8 x i32> %v17, splat (i32 32767)
  %v19 = add <8 x i32> %v15, %v18
  %v20 = lshr <8 x i32> %v19, splat (i32 16)
  %v21 = and <8 x i32> %v15, splat (i32 2147483647)
  %v22 = icmp ugt <8 x i32> %v21, splat (i32 2139095040)
  %v23 = or <8 x i32> %v16, splat (i32 64)
  %v24 = select <8 x i1> %v22, <8 x i32> %v23, <8 x i32> %v20
  %v25 = trunc <8 x i32> %v24 to <8 x i16>
  %v26 = getelementptr i8, ptr %v10, i64 32
  %v27 = load <8 x i32>, ptr %v26, align 1
  %v28 = bitcast <8 x i32> %v27 to <8 x float>
  %v29 = bitcast <8 x float> %v28 to <8 x i32>
  %v30 = lshr <8 x i32> %v29, splat (i32 16)
  %v31 = and <8 x i32> %v30, splat (i32 1)
  %v32 = add <8 x i32> %v31, splat (i32 32767)
  %v33 = add <8 x i32> %v29, %v32
  %v34 = lshr <8 x i32> %v33, splat (i32 16)
  %v35 = and <8 x i32> %v29, splat (i32 2147483647)
  %v36 = icmp ugt <8 x i32> %v35, splat (i32 2139095040)
  %v37 = or <8 x i32> %v30, splat (i32 64)
  %v38 = select <8 x i1> %v36, <8 x i32> %v37, <8 x i32> %v34
  %v39 = trunc <8 x i32> %v38 to <8 x i16>
  %v40 = getelementptr i8, ptr %v10, i64 64
  %v41 = load <8 x i32>, ptr %v40, align 1
  %v42 = bitcast <8 x i32> %v41 to <8 x float>
  %v43 = bitcast <8 x float> %v42 to <8 x i32>
  %v44 = lshr <8 x i32> %v43, splat (i32 16)
  %v45 = and <8 x i32> %v44, splat (i32 1)
  %v46 = add <8 x i32> %v45, splat (i32 32767)
  %v47 = add <8 x i32> %v43, %v46
  %v48 = lshr <8 x i32> %v47, splat (i32 16)
  %v49 = and <8 x i32> %v43, splat (i32 2147483647)
  %v50 = icmp ugt <8 x i32> %v49, splat (i32 2139095040)
  %v51 = or <8 x i32> %v44, splat (i32 64)
  %v52 = select <8 x i1> %v50, <8 x i32> %v51, <8 x i32> %v48
  %v53 = trunc <8 x i32> %v52 to <8 x i16>
  %v54 = getelementptr i8, ptr %v10, i64 96
  %v55 = load <8 x i32>, ptr %v54, align 1
  %v56 = bitcast <8 x i32> %v55 to <8 x float>
  %v57 = bitcast <8 x float> %v56 to <8 x i32>
  %v58 = lshr <8 x i32> %v57, splat (i32 16)
  %v59 = and <8 x i32> %v58, splat (i32 1)
  %v60 = add <8 x i32> %v59, splat (i32 32767)
  %v61 = add <8 x i32> %v57, %v60
  %v62 = lshr <8 x i32> %v61, splat (i32 16)
  %v63 = and <8 x i32> %v57, splat (i32 2147483647)
  %v64 = icmp ugt <8 x i32> %v63, splat (i32 2139095040)
  %v65 = or <8 x i32> %v58, splat (i32 64)
  %v66 = select <8 x i1> %v64, <8 x i32> %v65, <8 x i32> %v62
  %v67 = trunc <8 x i32> %v66 to <8 x i16>
  store <8 x i16> %v25, ptr %v12, align 1
  %v68 = getelementptr i8, ptr %v12, i64 16
  %v69 = getelementptr i8, ptr %v12, i64 16
  store <8 x i16> %v39, ptr %v69, align 1
  %v70 = getelementptr i8, ptr %v12, i64 32
  %v71 = getelementptr i8, ptr %v12, i64 32
  store <8 x i16> %v53, ptr %v71, align 1
  %v72 = getelementptr i8, ptr %v12, i64 48
  %v73 = getelementptr i8, ptr %v12, i64 48
  store <8 x i16> %v67, ptr %v73, align 1
  %v7 = add nuw nsw i64 %v6, 1
  %v74 = icmp slt i64 %v7, 31
  br i1 %v74, label %v4, label %v5
v5:
  %v75 = getelementptr i8, ptr %src, i64 3968
  %v76 = getelementptr i8, ptr %dst, i64 1984
  %v77 = load <8 x i32>, ptr %v75, align 1
  %v78 = bitcast <8 x i32> %v77 to <8 x float>
  %v79 = bitcast <8 x float> %v78 to <8 x i32>
  %v80 = lshr <8 x i32> %v79, splat (i32 16)
  %v81 = and <8 x i32> %v80, splat (i32 1)
  %v82 = add <8 x i32> %v81, splat (i32 32767)
  %v83 = add <8 x i32> %v79, %v82
  %v84 = lshr <8 x i32> %v83, splat (i32 16)
  %v85 = and <8 x i32> %v79, splat (i32 2147483647)
  %v86 = icmp ugt <8 x i32> %v85, splat (i32 2139095040)
  %v87 = or <8 x i32> %v80, splat (i32 64)
  %v88 = select <8 x i1> %v86, <8 x i32> %v87, <8 x i32> %v84
  %v89 = trunc <8 x i32> %v88 to <8 x i16>
  store <8 x i16> %v89, ptr %v76, align 1
  br label %v2
v2:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
!0 = !{i32 1}
