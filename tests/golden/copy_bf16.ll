; src f32 + 0, dst bf16 + 0
; for 1000: src += 1, dst += 1
;   dst = bf16(src)

; --- avx512
; # copy of a0 1000: one axis is contiguous on both sides
; tile(a0, 128)
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
  store <32 x i16> %v39, ptr %v68, align 1
  %v69 = getelementptr i8, ptr %v12, i64 128
  store <32 x i16> %v53, ptr %v69, align 1
  %v70 = getelementptr i8, ptr %v12, i64 192
  store <32 x i16> %v67, ptr %v70, align 1
  %v7 = add nuw nsw i64 %v6, 1
  %v71 = icmp slt i64 %v7, 7
  br i1 %v71, label %v4, label %v5
v5:
  %v72 = getelementptr i8, ptr %src, i64 3584
  %v73 = getelementptr i8, ptr %dst, i64 1792
  %v74 = load <32 x i32>, ptr %v72, align 1
  %v75 = bitcast <32 x i32> %v74 to <32 x float>
  %v76 = bitcast <32 x float> %v75 to <32 x i32>
  %v77 = lshr <32 x i32> %v76, splat (i32 16)
  %v78 = and <32 x i32> %v77, splat (i32 1)
  %v79 = add <32 x i32> %v78, splat (i32 32767)
  %v80 = add <32 x i32> %v76, %v79
  %v81 = lshr <32 x i32> %v80, splat (i32 16)
  %v82 = and <32 x i32> %v76, splat (i32 2147483647)
  %v83 = icmp ugt <32 x i32> %v82, splat (i32 2139095040)
  %v84 = or <32 x i32> %v77, splat (i32 64)
  %v85 = select <32 x i1> %v83, <32 x i32> %v84, <32 x i32> %v81
  %v86 = trunc <32 x i32> %v85 to <32 x i16>
  %v87 = getelementptr i8, ptr %v72, i64 128
  %v88 = load <32 x i32>, ptr %v87, align 1
  %v89 = bitcast <32 x i32> %v88 to <32 x float>
  %v90 = bitcast <32 x float> %v89 to <32 x i32>
  %v91 = lshr <32 x i32> %v90, splat (i32 16)
  %v92 = and <32 x i32> %v91, splat (i32 1)
  %v93 = add <32 x i32> %v92, splat (i32 32767)
  %v94 = add <32 x i32> %v90, %v93
  %v95 = lshr <32 x i32> %v94, splat (i32 16)
  %v96 = and <32 x i32> %v90, splat (i32 2147483647)
  %v97 = icmp ugt <32 x i32> %v96, splat (i32 2139095040)
  %v98 = or <32 x i32> %v91, splat (i32 64)
  %v99 = select <32 x i1> %v97, <32 x i32> %v98, <32 x i32> %v95
  %v100 = trunc <32 x i32> %v99 to <32 x i16>
  %v101 = getelementptr i8, ptr %v72, i64 256
  %v102 = load <32 x i32>, ptr %v101, align 1
  %v103 = bitcast <32 x i32> %v102 to <32 x float>
  %v104 = bitcast <32 x float> %v103 to <32 x i32>
  %v105 = lshr <32 x i32> %v104, splat (i32 16)
  %v106 = and <32 x i32> %v105, splat (i32 1)
  %v107 = add <32 x i32> %v106, splat (i32 32767)
  %v108 = add <32 x i32> %v104, %v107
  %v109 = lshr <32 x i32> %v108, splat (i32 16)
  %v110 = and <32 x i32> %v104, splat (i32 2147483647)
  %v111 = icmp ugt <32 x i32> %v110, splat (i32 2139095040)
  %v112 = or <32 x i32> %v105, splat (i32 64)
  %v113 = select <32 x i1> %v111, <32 x i32> %v112, <32 x i32> %v109
  %v114 = trunc <32 x i32> %v113 to <32 x i16>
  %v115 = getelementptr i8, ptr %v72, i64 384
  %v116 = call <32 x i32> @llvm.masked.load.v32i32.p0(ptr %v115, i32 1, <32 x i1> <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>, <32 x i32> zeroinitializer)
  %v117 = bitcast <32 x i32> %v116 to <32 x float>
  %v118 = bitcast <32 x float> %v117 to <32 x i32>
  %v119 = lshr <32 x i32> %v118, splat (i32 16)
  %v120 = and <32 x i32> %v119, splat (i32 1)
  %v121 = add <32 x i32> %v120, splat (i32 32767)
  %v122 = add <32 x i32> %v118, %v121
  %v123 = lshr <32 x i32> %v122, splat (i32 16)
  %v124 = and <32 x i32> %v118, splat (i32 2147483647)
  %v125 = icmp ugt <32 x i32> %v124, splat (i32 2139095040)
  %v126 = or <32 x i32> %v119, splat (i32 64)
  %v127 = select <32 x i1> %v125, <32 x i32> %v126, <32 x i32> %v123
  %v128 = trunc <32 x i32> %v127 to <32 x i16>
  store <32 x i16> %v86, ptr %v73, align 1
  %v129 = getelementptr i8, ptr %v73, i64 64
  store <32 x i16> %v100, ptr %v129, align 1
  %v130 = getelementptr i8, ptr %v73, i64 128
  store <32 x i16> %v114, ptr %v130, align 1
  %v131 = getelementptr i8, ptr %v73, i64 192
  call void @llvm.masked.store.v32i16.p0(<32 x i16> %v128, ptr %v131, i32 1, <32 x i1> <i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 true, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false, i1 false>)
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
; # copy of a0 1000: one axis is contiguous on both sides
; tile(a0, 64)
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
  store <16 x i16> %v39, ptr %v68, align 1
  %v69 = getelementptr i8, ptr %v12, i64 64
  store <16 x i16> %v53, ptr %v69, align 1
  %v70 = getelementptr i8, ptr %v12, i64 96
  store <16 x i16> %v67, ptr %v70, align 1
  %v7 = add nuw nsw i64 %v6, 1
  %v71 = icmp slt i64 %v7, 15
  br i1 %v71, label %v4, label %v5
v5:
  %v72 = getelementptr i8, ptr %src, i64 3840
  %v73 = getelementptr i8, ptr %dst, i64 1920
  %v74 = load <16 x i32>, ptr %v72, align 1
  %v75 = bitcast <16 x i32> %v74 to <16 x float>
  %v76 = bitcast <16 x float> %v75 to <16 x i32>
  %v77 = lshr <16 x i32> %v76, splat (i32 16)
  %v78 = and <16 x i32> %v77, splat (i32 1)
  %v79 = add <16 x i32> %v78, splat (i32 32767)
  %v80 = add <16 x i32> %v76, %v79
  %v81 = lshr <16 x i32> %v80, splat (i32 16)
  %v82 = and <16 x i32> %v76, splat (i32 2147483647)
  %v83 = icmp ugt <16 x i32> %v82, splat (i32 2139095040)
  %v84 = or <16 x i32> %v77, splat (i32 64)
  %v85 = select <16 x i1> %v83, <16 x i32> %v84, <16 x i32> %v81
  %v86 = trunc <16 x i32> %v85 to <16 x i16>
  %v87 = getelementptr i8, ptr %v72, i64 64
  %v88 = load <16 x i32>, ptr %v87, align 1
  %v89 = bitcast <16 x i32> %v88 to <16 x float>
  %v90 = bitcast <16 x float> %v89 to <16 x i32>
  %v91 = lshr <16 x i32> %v90, splat (i32 16)
  %v92 = and <16 x i32> %v91, splat (i32 1)
  %v93 = add <16 x i32> %v92, splat (i32 32767)
  %v94 = add <16 x i32> %v90, %v93
  %v95 = lshr <16 x i32> %v94, splat (i32 16)
  %v96 = and <16 x i32> %v90, splat (i32 2147483647)
  %v97 = icmp ugt <16 x i32> %v96, splat (i32 2139095040)
  %v98 = or <16 x i32> %v91, splat (i32 64)
  %v99 = select <16 x i1> %v97, <16 x i32> %v98, <16 x i32> %v95
  %v100 = trunc <16 x i32> %v99 to <16 x i16>
  %v101 = getelementptr i8, ptr %v72, i64 128
  %v102 = getelementptr i8, ptr %v72, i64 128
  %v103 = load <8 x i32>, ptr %v102, align 1
  %v104 = shufflevector <8 x i32> %v103, <8 x i32> %v103, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison, i32 poison>
  %v105 = shufflevector <16 x i32> zeroinitializer, <16 x i32> %v104, <16 x i32> <i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v106 = bitcast <16 x i32> %v105 to <16 x float>
  %v107 = bitcast <16 x float> %v106 to <16 x i32>
  %v108 = lshr <16 x i32> %v107, splat (i32 16)
  %v109 = and <16 x i32> %v108, splat (i32 1)
  %v110 = add <16 x i32> %v109, splat (i32 32767)
  %v111 = add <16 x i32> %v107, %v110
  %v112 = lshr <16 x i32> %v111, splat (i32 16)
  %v113 = and <16 x i32> %v107, splat (i32 2147483647)
  %v114 = icmp ugt <16 x i32> %v113, splat (i32 2139095040)
  %v115 = or <16 x i32> %v108, splat (i32 64)
  %v116 = select <16 x i1> %v114, <16 x i32> %v115, <16 x i32> %v112
  %v117 = trunc <16 x i32> %v116 to <16 x i16>
  store <16 x i16> %v86, ptr %v73, align 1
  %v118 = getelementptr i8, ptr %v73, i64 32
  store <16 x i16> %v100, ptr %v118, align 1
  %v119 = shufflevector <16 x i16> %v117, <16 x i16> %v117, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v120 = getelementptr i8, ptr %v73, i64 64
  store <8 x i16> %v119, ptr %v120, align 1
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
; # copy of a0 1000: one axis is contiguous on both sides
; tile(a0, 32)
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
  store <8 x i16> %v39, ptr %v68, align 1
  %v69 = getelementptr i8, ptr %v12, i64 32
  store <8 x i16> %v53, ptr %v69, align 1
  %v70 = getelementptr i8, ptr %v12, i64 48
  store <8 x i16> %v67, ptr %v70, align 1
  %v7 = add nuw nsw i64 %v6, 1
  %v71 = icmp slt i64 %v7, 31
  br i1 %v71, label %v4, label %v5
v5:
  %v72 = getelementptr i8, ptr %src, i64 3968
  %v73 = getelementptr i8, ptr %dst, i64 1984
  %v74 = load <8 x i32>, ptr %v72, align 1
  %v75 = bitcast <8 x i32> %v74 to <8 x float>
  %v76 = bitcast <8 x float> %v75 to <8 x i32>
  %v77 = lshr <8 x i32> %v76, splat (i32 16)
  %v78 = and <8 x i32> %v77, splat (i32 1)
  %v79 = add <8 x i32> %v78, splat (i32 32767)
  %v80 = add <8 x i32> %v76, %v79
  %v81 = lshr <8 x i32> %v80, splat (i32 16)
  %v82 = and <8 x i32> %v76, splat (i32 2147483647)
  %v83 = icmp ugt <8 x i32> %v82, splat (i32 2139095040)
  %v84 = or <8 x i32> %v77, splat (i32 64)
  %v85 = select <8 x i1> %v83, <8 x i32> %v84, <8 x i32> %v81
  %v86 = trunc <8 x i32> %v85 to <8 x i16>
  store <8 x i16> %v86, ptr %v73, align 1
  br label %v2
v2:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
!0 = !{i32 1}
