; src f32 + 0, dst f32 + 0
; for 2: src += 1024, dst += 1024
;   for 16: src += 64, dst += 1
;     for 8: src += 8, dst += 128
;       for 8: src += 1, dst += 16
;         dst = f32(src)

; --- avx512
; transpose (the contiguous axes of the two sides differ): tile 16 of 64 x 16 of 16; grid []; inner axes [0, 1]
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v3 = icmp eq i64 %part, 0
  br i1 %v3, label %v1, label %v2
v1:
  %v8 = icmp slt i64 0, 2
  br i1 %v8, label %v4, label %v5
v4:
  %v6 = phi i64 [ 0, %v1 ], [ %v7, %v14 ]
  %v9 = mul i64 %v6, 4096
  %v10 = getelementptr i8, ptr %src, i64 %v9
  %v11 = mul i64 %v6, 4096
  %v12 = getelementptr i8, ptr %dst, i64 %v11
  %v17 = icmp slt i64 0, 4
  br i1 %v17, label %v13, label %v14
v13:
  %v15 = phi i64 [ 0, %v4 ], [ %v16, %v127 ]
  %v18 = mul i64 %v15, 64
  %v19 = getelementptr i8, ptr %v10, i64 %v18
  %v20 = mul i64 %v15, 1024
  %v21 = getelementptr i8, ptr %v12, i64 %v20
  %v22 = load <16 x i32>, ptr %v19, align 1
  %v23 = getelementptr i8, ptr %v19, i64 256
  %v24 = load <16 x i32>, ptr %v23, align 1
  %v25 = getelementptr i8, ptr %v19, i64 512
  %v26 = load <16 x i32>, ptr %v25, align 1
  %v27 = getelementptr i8, ptr %v19, i64 768
  %v28 = load <16 x i32>, ptr %v27, align 1
  %v29 = getelementptr i8, ptr %v19, i64 1024
  %v30 = load <16 x i32>, ptr %v29, align 1
  %v31 = getelementptr i8, ptr %v19, i64 1280
  %v32 = load <16 x i32>, ptr %v31, align 1
  %v33 = getelementptr i8, ptr %v19, i64 1536
  %v34 = load <16 x i32>, ptr %v33, align 1
  %v35 = getelementptr i8, ptr %v19, i64 1792
  %v36 = load <16 x i32>, ptr %v35, align 1
  %v37 = getelementptr i8, ptr %v19, i64 2048
  %v38 = load <16 x i32>, ptr %v37, align 1
  %v39 = getelementptr i8, ptr %v19, i64 2304
  %v40 = load <16 x i32>, ptr %v39, align 1
  %v41 = getelementptr i8, ptr %v19, i64 2560
  %v42 = load <16 x i32>, ptr %v41, align 1
  %v43 = getelementptr i8, ptr %v19, i64 2816
  %v44 = load <16 x i32>, ptr %v43, align 1
  %v45 = getelementptr i8, ptr %v19, i64 3072
  %v46 = load <16 x i32>, ptr %v45, align 1
  %v47 = getelementptr i8, ptr %v19, i64 3328
  %v48 = load <16 x i32>, ptr %v47, align 1
  %v49 = getelementptr i8, ptr %v19, i64 3584
  %v50 = load <16 x i32>, ptr %v49, align 1
  %v51 = getelementptr i8, ptr %v19, i64 3840
  %v52 = load <16 x i32>, ptr %v51, align 1
  %v53 = shufflevector <16 x i32> %v22, <16 x i32> %v26, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 4, i32 20, i32 5, i32 21, i32 8, i32 24, i32 9, i32 25, i32 12, i32 28, i32 13, i32 29>
  %v54 = shufflevector <16 x i32> %v22, <16 x i32> %v26, <16 x i32> <i32 2, i32 18, i32 3, i32 19, i32 6, i32 22, i32 7, i32 23, i32 10, i32 26, i32 11, i32 27, i32 14, i32 30, i32 15, i32 31>
  %v55 = shufflevector <16 x i32> %v24, <16 x i32> %v28, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 4, i32 20, i32 5, i32 21, i32 8, i32 24, i32 9, i32 25, i32 12, i32 28, i32 13, i32 29>
  %v56 = shufflevector <16 x i32> %v24, <16 x i32> %v28, <16 x i32> <i32 2, i32 18, i32 3, i32 19, i32 6, i32 22, i32 7, i32 23, i32 10, i32 26, i32 11, i32 27, i32 14, i32 30, i32 15, i32 31>
  br label %v57
v57:
  %v58 = shufflevector <16 x i32> %v53, <16 x i32> %v55, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 4, i32 20, i32 5, i32 21, i32 8, i32 24, i32 9, i32 25, i32 12, i32 28, i32 13, i32 29>
  %v59 = shufflevector <16 x i32> %v53, <16 x i32> %v55, <16 x i32> <i32 2, i32 18, i32 3, i32 19, i32 6, i32 22, i32 7, i32 23, i32 10, i32 26, i32 11, i32 27, i32 14, i32 30, i32 15, i32 31>
  %v60 = shufflevector <16 x i32> %v54, <16 x i32> %v56, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 4, i32 20, i32 5, i32 21, i32 8, i32 24, i32 9, i32 25, i32 12, i32 28, i32 13, i32 29>
  %v61 = shufflevector <16 x i32> %v54, <16 x i32> %v56, <16 x i32> <i32 2, i32 18, i32 3, i32 19, i32 6, i32 22, i32 7, i32 23, i32 10, i32 26, i32 11, i32 27, i32 14, i32 30, i32 15, i32 31>
  br label %v62
v62:
  %v63 = shufflevector <16 x i32> %v30, <16 x i32> %v34, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 4, i32 20, i32 5, i32 21, i32 8, i32 24, i32 9, i32 25, i32 12, i32 28, i32 13, i32 29>
  %v64 = shufflevector <16 x i32> %v30, <16 x i32> %v34, <16 x i32> <i32 2, i32 18, i32 3, i32 19, i32 6, i32 22, i32 7, i32 23, i32 10, i32 26, i32 11, i32 27, i32 14, i32 30, i32 15, i32 31>
  %v65 = shufflevector <16 x i32> %v32, <16 x i32> %v36, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 4, i32 20, i32 5, i32 21, i32 8, i32 24, i32 9, i32 25, i32 12, i32 28, i32 13, i32 29>
  %v66 = shufflevector <16 x i32> %v32, <16 x i32> %v36, <16 x i32> <i32 2, i32 18, i32 3, i32 19, i32 6, i32 22, i32 7, i32 23, i32 10, i32 26, i32 11, i32 27, i32 14, i32 30, i32 15, i32 31>
  br label %v67
v67:
  %v68 = shufflevector <16 x i32> %v63, <16 x i32> %v65, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 4, i32 20, i32 5, i32 21, i32 8, i32 24, i32 9, i32 25, i32 12, i32 28, i32 13, i32 29>
  %v69 = shufflevector <16 x i32> %v63, <16 x i32> %v65, <16 x i32> <i32 2, i32 18, i32 3, i32 19, i32 6, i32 22, i32 7, i32 23, i32 10, i32 26, i32 11, i32 27, i32 14, i32 30, i32 15, i32 31>
  %v70 = shufflevector <16 x i32> %v64, <16 x i32> %v66, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 4, i32 20, i32 5, i32 21, i32 8, i32 24, i32 9, i32 25, i32 12, i32 28, i32 13, i32 29>
  %v71 = shufflevector <16 x i32> %v64, <16 x i32> %v66, <16 x i32> <i32 2, i32 18, i32 3, i32 19, i32 6, i32 22, i32 7, i32 23, i32 10, i32 26, i32 11, i32 27, i32 14, i32 30, i32 15, i32 31>
  br label %v72
v72:
  %v73 = shufflevector <16 x i32> %v38, <16 x i32> %v42, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 4, i32 20, i32 5, i32 21, i32 8, i32 24, i32 9, i32 25, i32 12, i32 28, i32 13, i32 29>
  %v74 = shufflevector <16 x i32> %v38, <16 x i32> %v42, <16 x i32> <i32 2, i32 18, i32 3, i32 19, i32 6, i32 22, i32 7, i32 23, i32 10, i32 26, i32 11, i32 27, i32 14, i32 30, i32 15, i32 31>
  %v75 = shufflevector <16 x i32> %v40, <16 x i32> %v44, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 4, i32 20, i32 5, i32 21, i32 8, i32 24, i32 9, i32 25, i32 12, i32 28, i32 13, i32 29>
  %v76 = shufflevector <16 x i32> %v40, <16 x i32> %v44, <16 x i32> <i32 2, i32 18, i32 3, i32 19, i32 6, i32 22, i32 7, i32 23, i32 10, i32 26, i32 11, i32 27, i32 14, i32 30, i32 15, i32 31>
  br label %v77
v77:
  %v78 = shufflevector <16 x i32> %v73, <16 x i32> %v75, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 4, i32 20, i32 5, i32 21, i32 8, i32 24, i32 9, i32 25, i32 12, i32 28, i32 13, i32 29>
  %v79 = shufflevector <16 x i32> %v73, <16 x i32> %v75, <16 x i32> <i32 2, i32 18, i32 3, i32 19, i32 6, i32 22, i32 7, i32 23, i32 10, i32 26, i32 11, i32 27, i32 14, i32 30, i32 15, i32 31>
  %v80 = shufflevector <16 x i32> %v74, <16 x i32> %v76, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 4, i32 20, i32 5, i32 21, i32 8, i32 24, i32 9, i32 25, i32 12, i32 28, i32 13, i32 29>
  %v81 = shufflevector <16 x i32> %v74, <16 x i32> %v76, <16 x i32> <i32 2, i32 18, i32 3, i32 19, i32 6, i32 22, i32 7, i32 23, i32 10, i32 26, i32 11, i32 27, i32 14, i32 30, i32 15, i32 31>
  br label %v82
v82:
  %v83 = shufflevector <16 x i32> %v46, <16 x i32> %v50, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 4, i32 20, i32 5, i32 21, i32 8, i32 24, i32 9, i32 25, i32 12, i32 28, i32 13, i32 29>
  %v84 = shufflevector <16 x i32> %v46, <16 x i32> %v50, <16 x i32> <i32 2, i32 18, i32 3, i32 19, i32 6, i32 22, i32 7, i32 23, i32 10, i32 26, i32 11, i32 27, i32 14, i32 30, i32 15, i32 31>
  %v85 = shufflevector <16 x i32> %v48, <16 x i32> %v52, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 4, i32 20, i32 5, i32 21, i32 8, i32 24, i32 9, i32 25, i32 12, i32 28, i32 13, i32 29>
  %v86 = shufflevector <16 x i32> %v48, <16 x i32> %v52, <16 x i32> <i32 2, i32 18, i32 3, i32 19, i32 6, i32 22, i32 7, i32 23, i32 10, i32 26, i32 11, i32 27, i32 14, i32 30, i32 15, i32 31>
  br label %v87
v87:
  %v88 = shufflevector <16 x i32> %v83, <16 x i32> %v85, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 4, i32 20, i32 5, i32 21, i32 8, i32 24, i32 9, i32 25, i32 12, i32 28, i32 13, i32 29>
  %v89 = shufflevector <16 x i32> %v83, <16 x i32> %v85, <16 x i32> <i32 2, i32 18, i32 3, i32 19, i32 6, i32 22, i32 7, i32 23, i32 10, i32 26, i32 11, i32 27, i32 14, i32 30, i32 15, i32 31>
  %v90 = shufflevector <16 x i32> %v84, <16 x i32> %v86, <16 x i32> <i32 0, i32 16, i32 1, i32 17, i32 4, i32 20, i32 5, i32 21, i32 8, i32 24, i32 9, i32 25, i32 12, i32 28, i32 13, i32 29>
  %v91 = shufflevector <16 x i32> %v84, <16 x i32> %v86, <16 x i32> <i32 2, i32 18, i32 3, i32 19, i32 6, i32 22, i32 7, i32 23, i32 10, i32 26, i32 11, i32 27, i32 14, i32 30, i32 15, i32 31>
  br label %v92
v92:
  %v93 = shufflevector <16 x i32> %v58, <16 x i32> %v68, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %v94 = shufflevector <16 x i32> %v58, <16 x i32> %v68, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  %v95 = shufflevector <16 x i32> %v78, <16 x i32> %v88, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %v96 = shufflevector <16 x i32> %v78, <16 x i32> %v88, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  br label %v97
v97:
  %v98 = shufflevector <16 x i32> %v93, <16 x i32> %v95, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %v99 = shufflevector <16 x i32> %v93, <16 x i32> %v95, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %v100 = shufflevector <16 x i32> %v94, <16 x i32> %v96, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %v101 = shufflevector <16 x i32> %v94, <16 x i32> %v96, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  br label %v102
v102:
  %v103 = shufflevector <16 x i32> %v59, <16 x i32> %v69, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %v104 = shufflevector <16 x i32> %v59, <16 x i32> %v69, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  %v105 = shufflevector <16 x i32> %v79, <16 x i32> %v89, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %v106 = shufflevector <16 x i32> %v79, <16 x i32> %v89, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  br label %v107
v107:
  %v108 = shufflevector <16 x i32> %v103, <16 x i32> %v105, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %v109 = shufflevector <16 x i32> %v103, <16 x i32> %v105, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %v110 = shufflevector <16 x i32> %v104, <16 x i32> %v106, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %v111 = shufflevector <16 x i32> %v104, <16 x i32> %v106, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  br label %v112
v112:
  %v113 = shufflevector <16 x i32> %v60, <16 x i32> %v70, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %v114 = shufflevector <16 x i32> %v60, <16 x i32> %v70, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  %v115 = shufflevector <16 x i32> %v80, <16 x i32> %v90, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %v116 = shufflevector <16 x i32> %v80, <16 x i32> %v90, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  br label %v117
v117:
  %v118 = shufflevector <16 x i32> %v113, <16 x i32> %v115, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %v119 = shufflevector <16 x i32> %v113, <16 x i32> %v115, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %v120 = shufflevector <16 x i32> %v114, <16 x i32> %v116, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %v121 = shufflevector <16 x i32> %v114, <16 x i32> %v116, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  br label %v122
v122:
  %v123 = shufflevector <16 x i32> %v61, <16 x i32> %v71, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %v124 = shufflevector <16 x i32> %v61, <16 x i32> %v71, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  %v125 = shufflevector <16 x i32> %v81, <16 x i32> %v91, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 16, i32 17, i32 18, i32 19, i32 8, i32 9, i32 10, i32 11, i32 24, i32 25, i32 26, i32 27>
  %v126 = shufflevector <16 x i32> %v81, <16 x i32> %v91, <16 x i32> <i32 4, i32 5, i32 6, i32 7, i32 20, i32 21, i32 22, i32 23, i32 12, i32 13, i32 14, i32 15, i32 28, i32 29, i32 30, i32 31>
  br label %v127
v127:
  %v128 = shufflevector <16 x i32> %v123, <16 x i32> %v125, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %v129 = shufflevector <16 x i32> %v123, <16 x i32> %v125, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  %v130 = shufflevector <16 x i32> %v124, <16 x i32> %v126, <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 16, i32 17, i32 18, i32 19, i32 20, i32 21, i32 22, i32 23>
  %v131 = shufflevector <16 x i32> %v124, <16 x i32> %v126, <16 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15, i32 24, i32 25, i32 26, i32 27, i32 28, i32 29, i32 30, i32 31>
  store <16 x i32> %v98, ptr %v21, align 1
  %v132 = getelementptr i8, ptr %v21, i64 64
  store <16 x i32> %v108, ptr %v132, align 1
  %v133 = getelementptr i8, ptr %v21, i64 128
  store <16 x i32> %v118, ptr %v133, align 1
  %v134 = getelementptr i8, ptr %v21, i64 192
  store <16 x i32> %v128, ptr %v134, align 1
  %v135 = getelementptr i8, ptr %v21, i64 256
  store <16 x i32> %v100, ptr %v135, align 1
  %v136 = getelementptr i8, ptr %v21, i64 320
  store <16 x i32> %v110, ptr %v136, align 1
  %v137 = getelementptr i8, ptr %v21, i64 384
  store <16 x i32> %v120, ptr %v137, align 1
  %v138 = getelementptr i8, ptr %v21, i64 448
  store <16 x i32> %v130, ptr %v138, align 1
  %v139 = getelementptr i8, ptr %v21, i64 512
  store <16 x i32> %v99, ptr %v139, align 1
  %v140 = getelementptr i8, ptr %v21, i64 576
  store <16 x i32> %v109, ptr %v140, align 1
  %v141 = getelementptr i8, ptr %v21, i64 640
  store <16 x i32> %v119, ptr %v141, align 1
  %v142 = getelementptr i8, ptr %v21, i64 704
  store <16 x i32> %v129, ptr %v142, align 1
  %v143 = getelementptr i8, ptr %v21, i64 768
  store <16 x i32> %v101, ptr %v143, align 1
  %v144 = getelementptr i8, ptr %v21, i64 832
  store <16 x i32> %v111, ptr %v144, align 1
  %v145 = getelementptr i8, ptr %v21, i64 896
  store <16 x i32> %v121, ptr %v145, align 1
  %v146 = getelementptr i8, ptr %v21, i64 960
  store <16 x i32> %v131, ptr %v146, align 1
  %v16 = add nuw nsw i64 %v15, 1
  %v147 = icmp slt i64 %v16, 4
  br i1 %v147, label %v13, label %v14
v14:
  %v7 = add nuw nsw i64 %v6, 1
  %v148 = icmp slt i64 %v7, 2
  br i1 %v148, label %v4, label %v5
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
; transpose (the contiguous axes of the two sides differ): tile 8 of 64 x 8 of 16; grid []; inner axes [0, 2, 1]
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v3 = icmp eq i64 %part, 0
  br i1 %v3, label %v1, label %v2
v1:
  %v8 = icmp slt i64 0, 2
  br i1 %v8, label %v4, label %v5
v4:
  %v6 = phi i64 [ 0, %v1 ], [ %v7, %v14 ]
  %v9 = mul i64 %v6, 4096
  %v10 = getelementptr i8, ptr %src, i64 %v9
  %v11 = mul i64 %v6, 4096
  %v12 = getelementptr i8, ptr %dst, i64 %v11
  %v17 = icmp slt i64 0, 2
  br i1 %v17, label %v13, label %v14
v13:
  %v15 = phi i64 [ 0, %v4 ], [ %v16, %v23 ]
  %v18 = mul i64 %v15, 2048
  %v19 = getelementptr i8, ptr %v10, i64 %v18
  %v20 = mul i64 %v15, 32
  %v21 = getelementptr i8, ptr %v12, i64 %v20
  %v26 = icmp slt i64 0, 8
  br i1 %v26, label %v22, label %v23
v22:
  %v24 = phi i64 [ 0, %v13 ], [ %v25, %v74 ]
  %v27 = mul i64 %v24, 32
  %v28 = getelementptr i8, ptr %v19, i64 %v27
  %v29 = mul i64 %v24, 512
  %v30 = getelementptr i8, ptr %v21, i64 %v29
  %v31 = load <8 x i32>, ptr %v28, align 1
  %v32 = getelementptr i8, ptr %v28, i64 256
  %v33 = load <8 x i32>, ptr %v32, align 1
  %v34 = getelementptr i8, ptr %v28, i64 512
  %v35 = load <8 x i32>, ptr %v34, align 1
  %v36 = getelementptr i8, ptr %v28, i64 768
  %v37 = load <8 x i32>, ptr %v36, align 1
  %v38 = getelementptr i8, ptr %v28, i64 1024
  %v39 = load <8 x i32>, ptr %v38, align 1
  %v40 = getelementptr i8, ptr %v28, i64 1280
  %v41 = load <8 x i32>, ptr %v40, align 1
  %v42 = getelementptr i8, ptr %v28, i64 1536
  %v43 = load <8 x i32>, ptr %v42, align 1
  %v44 = getelementptr i8, ptr %v28, i64 1792
  %v45 = load <8 x i32>, ptr %v44, align 1
  %v46 = shufflevector <8 x i32> %v31, <8 x i32> %v35, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 4, i32 12, i32 5, i32 13>
  %v47 = shufflevector <8 x i32> %v31, <8 x i32> %v35, <8 x i32> <i32 2, i32 10, i32 3, i32 11, i32 6, i32 14, i32 7, i32 15>
  %v48 = shufflevector <8 x i32> %v33, <8 x i32> %v37, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 4, i32 12, i32 5, i32 13>
  %v49 = shufflevector <8 x i32> %v33, <8 x i32> %v37, <8 x i32> <i32 2, i32 10, i32 3, i32 11, i32 6, i32 14, i32 7, i32 15>
  br label %v50
v50:
  %v51 = shufflevector <8 x i32> %v46, <8 x i32> %v48, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 4, i32 12, i32 5, i32 13>
  %v52 = shufflevector <8 x i32> %v46, <8 x i32> %v48, <8 x i32> <i32 2, i32 10, i32 3, i32 11, i32 6, i32 14, i32 7, i32 15>
  %v53 = shufflevector <8 x i32> %v47, <8 x i32> %v49, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 4, i32 12, i32 5, i32 13>
  %v54 = shufflevector <8 x i32> %v47, <8 x i32> %v49, <8 x i32> <i32 2, i32 10, i32 3, i32 11, i32 6, i32 14, i32 7, i32 15>
  br label %v55
v55:
  %v56 = shufflevector <8 x i32> %v39, <8 x i32> %v43, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 4, i32 12, i32 5, i32 13>
  %v57 = shufflevector <8 x i32> %v39, <8 x i32> %v43, <8 x i32> <i32 2, i32 10, i32 3, i32 11, i32 6, i32 14, i32 7, i32 15>
  %v58 = shufflevector <8 x i32> %v41, <8 x i32> %v45, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 4, i32 12, i32 5, i32 13>
  %v59 = shufflevector <8 x i32> %v41, <8 x i32> %v45, <8 x i32> <i32 2, i32 10, i32 3, i32 11, i32 6, i32 14, i32 7, i32 15>
  br label %v60
v60:
  %v61 = shufflevector <8 x i32> %v56, <8 x i32> %v58, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 4, i32 12, i32 5, i32 13>
  %v62 = shufflevector <8 x i32> %v56, <8 x i32> %v58, <8 x i32> <i32 2, i32 10, i32 3, i32 11, i32 6, i32 14, i32 7, i32 15>
  %v63 = shufflevector <8 x i32> %v57, <8 x i32> %v59, <8 x i32> <i32 0, i32 8, i32 1, i32 9, i32 4, i32 12, i32 5, i32 13>
  %v64 = shufflevector <8 x i32> %v57, <8 x i32> %v59, <8 x i32> <i32 2, i32 10, i32 3, i32 11, i32 6, i32 14, i32 7, i32 15>
  br label %v65
v65:
  %v66 = shufflevector <8 x i32> %v51, <8 x i32> %v61, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 8, i32 9, i32 10, i32 11>
  %v67 = shufflevector <8 x i32> %v51, <8 x i32> %v61, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 12, i32 13, i32 14, i32 15>
  br label %v68
v68:
  %v69 = shufflevector <8 x i32> %v52, <8 x i32> %v62, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 8, i32 9, i32 10, i32 11>
  %v70 = shufflevector <8 x i32> %v52, <8 x i32> %v62, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 12, i32 13, i32 14, i32 15>
  br label %v71
v71:
  %v72 = shufflevector <8 x i32> %v53, <8 x i32> %v63, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 8, i32 9, i32 10, i32 11>
  %v73 = shufflevector <8 x i32> %v53, <8 x i32> %v63, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 12, i32 13, i32 14, i32 15>
  br label %v74
v74:
  %v75 = shufflevector <8 x i32> %v54, <8 x i32> %v64, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 8, i32 9, i32 10, i32 11>
  %v76 = shufflevector <8 x i32> %v54, <8 x i32> %v64, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 12, i32 13, i32 14, i32 15>
  store <8 x i32> %v66, ptr %v30, align 1
  %v77 = getelementptr i8, ptr %v30, i64 64
  store <8 x i32> %v69, ptr %v77, align 1
  %v78 = getelementptr i8, ptr %v30, i64 128
  store <8 x i32> %v72, ptr %v78, align 1
  %v79 = getelementptr i8, ptr %v30, i64 192
  store <8 x i32> %v75, ptr %v79, align 1
  %v80 = getelementptr i8, ptr %v30, i64 256
  store <8 x i32> %v67, ptr %v80, align 1
  %v81 = getelementptr i8, ptr %v30, i64 320
  store <8 x i32> %v70, ptr %v81, align 1
  %v82 = getelementptr i8, ptr %v30, i64 384
  store <8 x i32> %v73, ptr %v82, align 1
  %v83 = getelementptr i8, ptr %v30, i64 448
  store <8 x i32> %v76, ptr %v83, align 1
  %v25 = add nuw nsw i64 %v24, 1
  %v84 = icmp slt i64 %v25, 8
  br i1 %v84, label %v22, label %v23
v23:
  %v16 = add nuw nsw i64 %v15, 1
  %v85 = icmp slt i64 %v16, 2
  br i1 %v85, label %v13, label %v14
v14:
  %v7 = add nuw nsw i64 %v6, 1
  %v86 = icmp slt i64 %v7, 2
  br i1 %v86, label %v4, label %v5
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
; transpose (the contiguous axes of the two sides differ): tile 4 of 64 x 4 of 16; grid []; inner axes [0, 2, 1]
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v3 = icmp eq i64 %part, 0
  br i1 %v3, label %v1, label %v2
v1:
  %v8 = icmp slt i64 0, 2
  br i1 %v8, label %v4, label %v5
v4:
  %v6 = phi i64 [ 0, %v1 ], [ %v7, %v14 ]
  %v9 = mul i64 %v6, 4096
  %v10 = getelementptr i8, ptr %src, i64 %v9
  %v11 = mul i64 %v6, 4096
  %v12 = getelementptr i8, ptr %dst, i64 %v11
  %v17 = icmp slt i64 0, 4
  br i1 %v17, label %v13, label %v14
v13:
  %v15 = phi i64 [ 0, %v4 ], [ %v16, %v23 ]
  %v18 = mul i64 %v15, 1024
  %v19 = getelementptr i8, ptr %v10, i64 %v18
  %v20 = mul i64 %v15, 16
  %v21 = getelementptr i8, ptr %v12, i64 %v20
  %v26 = icmp slt i64 0, 16
  br i1 %v26, label %v22, label %v23
v22:
  %v24 = phi i64 [ 0, %v13 ], [ %v25, %v42 ]
  %v27 = mul i64 %v24, 16
  %v28 = getelementptr i8, ptr %v19, i64 %v27
  %v29 = mul i64 %v24, 256
  %v30 = getelementptr i8, ptr %v21, i64 %v29
  %v31 = load <4 x i32>, ptr %v28, align 1
  %v32 = getelementptr i8, ptr %v28, i64 256
  %v33 = load <4 x i32>, ptr %v32, align 1
  %v34 = getelementptr i8, ptr %v28, i64 512
  %v35 = load <4 x i32>, ptr %v34, align 1
  %v36 = getelementptr i8, ptr %v28, i64 768
  %v37 = load <4 x i32>, ptr %v36, align 1
  %v38 = shufflevector <4 x i32> %v31, <4 x i32> %v35, <4 x i32> <i32 0, i32 4, i32 1, i32 5>
  %v39 = shufflevector <4 x i32> %v31, <4 x i32> %v35, <4 x i32> <i32 2, i32 6, i32 3, i32 7>
  %v40 = shufflevector <4 x i32> %v33, <4 x i32> %v37, <4 x i32> <i32 0, i32 4, i32 1, i32 5>
  %v41 = shufflevector <4 x i32> %v33, <4 x i32> %v37, <4 x i32> <i32 2, i32 6, i32 3, i32 7>
  br label %v42
v42:
  %v43 = shufflevector <4 x i32> %v38, <4 x i32> %v40, <4 x i32> <i32 0, i32 4, i32 1, i32 5>
  %v44 = shufflevector <4 x i32> %v38, <4 x i32> %v40, <4 x i32> <i32 2, i32 6, i32 3, i32 7>
  %v45 = shufflevector <4 x i32> %v39, <4 x i32> %v41, <4 x i32> <i32 0, i32 4, i32 1, i32 5>
  %v46 = shufflevector <4 x i32> %v39, <4 x i32> %v41, <4 x i32> <i32 2, i32 6, i32 3, i32 7>
  store <4 x i32> %v43, ptr %v30, align 1
  %v47 = getelementptr i8, ptr %v30, i64 64
  store <4 x i32> %v44, ptr %v47, align 1
  %v48 = getelementptr i8, ptr %v30, i64 128
  store <4 x i32> %v45, ptr %v48, align 1
  %v49 = getelementptr i8, ptr %v30, i64 192
  store <4 x i32> %v46, ptr %v49, align 1
  %v25 = add nuw nsw i64 %v24, 1
  %v50 = icmp slt i64 %v25, 16
  br i1 %v50, label %v22, label %v23
v23:
  %v16 = add nuw nsw i64 %v15, 1
  %v51 = icmp slt i64 %v16, 4
  br i1 %v51, label %v13, label %v14
v14:
  %v7 = add nuw nsw i64 %v6, 1
  %v52 = icmp slt i64 %v7, 2
  br i1 %v52, label %v4, label %v5
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
