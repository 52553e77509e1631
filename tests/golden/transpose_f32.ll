; src f32 + 0, dst f32 + 0
; for 2: src += 1024, dst += 1024
;   for 16: src += 64, dst += 1
;     for 8: src += 8, dst += 128
;       for 8: src += 1, dst += 16
;         dst = f32(src)

; --- avx512
; # transpose of a0 2, a1 64, a2 16: the contiguous axes of the two sides differ
; tile(a1, 16) · tile(a2, 16)
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
  %v15 = phi i64 [ 0, %v4 ], [ %v16, %v211 ]
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
  %v93 = bitcast <16 x i32> %v58 to <8 x i64>
  %v94 = bitcast <16 x i32> %v68 to <8 x i64>
  %v95 = shufflevector <8 x i64> %v93, <8 x i64> %v94, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v96 = bitcast <8 x i64> %v95 to <16 x i32>
  %v97 = bitcast <16 x i32> %v58 to <8 x i64>
  %v98 = bitcast <16 x i32> %v68 to <8 x i64>
  %v99 = shufflevector <8 x i64> %v97, <8 x i64> %v98, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v100 = bitcast <8 x i64> %v99 to <16 x i32>
  %v101 = bitcast <16 x i32> %v78 to <8 x i64>
  %v102 = bitcast <16 x i32> %v88 to <8 x i64>
  %v103 = shufflevector <8 x i64> %v101, <8 x i64> %v102, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v104 = bitcast <8 x i64> %v103 to <16 x i32>
  %v105 = bitcast <16 x i32> %v78 to <8 x i64>
  %v106 = bitcast <16 x i32> %v88 to <8 x i64>
  %v107 = shufflevector <8 x i64> %v105, <8 x i64> %v106, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v108 = bitcast <8 x i64> %v107 to <16 x i32>
  br label %v109
v109:
  %v110 = bitcast <16 x i32> %v96 to <8 x i64>
  %v111 = bitcast <16 x i32> %v104 to <8 x i64>
  %v112 = shufflevector <8 x i64> %v110, <8 x i64> %v111, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 8, i32 9, i32 10, i32 11>
  %v113 = bitcast <8 x i64> %v112 to <16 x i32>
  %v114 = bitcast <16 x i32> %v96 to <8 x i64>
  %v115 = bitcast <16 x i32> %v104 to <8 x i64>
  %v116 = shufflevector <8 x i64> %v114, <8 x i64> %v115, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 12, i32 13, i32 14, i32 15>
  %v117 = bitcast <8 x i64> %v116 to <16 x i32>
  %v118 = bitcast <16 x i32> %v100 to <8 x i64>
  %v119 = bitcast <16 x i32> %v108 to <8 x i64>
  %v120 = shufflevector <8 x i64> %v118, <8 x i64> %v119, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 8, i32 9, i32 10, i32 11>
  %v121 = bitcast <8 x i64> %v120 to <16 x i32>
  %v122 = bitcast <16 x i32> %v100 to <8 x i64>
  %v123 = bitcast <16 x i32> %v108 to <8 x i64>
  %v124 = shufflevector <8 x i64> %v122, <8 x i64> %v123, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 12, i32 13, i32 14, i32 15>
  %v125 = bitcast <8 x i64> %v124 to <16 x i32>
  br label %v126
v126:
  %v127 = bitcast <16 x i32> %v59 to <8 x i64>
  %v128 = bitcast <16 x i32> %v69 to <8 x i64>
  %v129 = shufflevector <8 x i64> %v127, <8 x i64> %v128, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v130 = bitcast <8 x i64> %v129 to <16 x i32>
  %v131 = bitcast <16 x i32> %v59 to <8 x i64>
  %v132 = bitcast <16 x i32> %v69 to <8 x i64>
  %v133 = shufflevector <8 x i64> %v131, <8 x i64> %v132, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v134 = bitcast <8 x i64> %v133 to <16 x i32>
  %v135 = bitcast <16 x i32> %v79 to <8 x i64>
  %v136 = bitcast <16 x i32> %v89 to <8 x i64>
  %v137 = shufflevector <8 x i64> %v135, <8 x i64> %v136, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v138 = bitcast <8 x i64> %v137 to <16 x i32>
  %v139 = bitcast <16 x i32> %v79 to <8 x i64>
  %v140 = bitcast <16 x i32> %v89 to <8 x i64>
  %v141 = shufflevector <8 x i64> %v139, <8 x i64> %v140, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v142 = bitcast <8 x i64> %v141 to <16 x i32>
  br label %v143
v143:
  %v144 = bitcast <16 x i32> %v130 to <8 x i64>
  %v145 = bitcast <16 x i32> %v138 to <8 x i64>
  %v146 = shufflevector <8 x i64> %v144, <8 x i64> %v145, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 8, i32 9, i32 10, i32 11>
  %v147 = bitcast <8 x i64> %v146 to <16 x i32>
  %v148 = bitcast <16 x i32> %v130 to <8 x i64>
  %v149 = bitcast <16 x i32> %v138 to <8 x i64>
  %v150 = shufflevector <8 x i64> %v148, <8 x i64> %v149, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 12, i32 13, i32 14, i32 15>
  %v151 = bitcast <8 x i64> %v150 to <16 x i32>
  %v152 = bitcast <16 x i32> %v134 to <8 x i64>
  %v153 = bitcast <16 x i32> %v142 to <8 x i64>
  %v154 = shufflevector <8 x i64> %v152, <8 x i64> %v153, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 8, i32 9, i32 10, i32 11>
  %v155 = bitcast <8 x i64> %v154 to <16 x i32>
  %v156 = bitcast <16 x i32> %v134 to <8 x i64>
  %v157 = bitcast <16 x i32> %v142 to <8 x i64>
  %v158 = shufflevector <8 x i64> %v156, <8 x i64> %v157, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 12, i32 13, i32 14, i32 15>
  %v159 = bitcast <8 x i64> %v158 to <16 x i32>
  br label %v160
v160:
  %v161 = bitcast <16 x i32> %v60 to <8 x i64>
  %v162 = bitcast <16 x i32> %v70 to <8 x i64>
  %v163 = shufflevector <8 x i64> %v161, <8 x i64> %v162, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v164 = bitcast <8 x i64> %v163 to <16 x i32>
  %v165 = bitcast <16 x i32> %v60 to <8 x i64>
  %v166 = bitcast <16 x i32> %v70 to <8 x i64>
  %v167 = shufflevector <8 x i64> %v165, <8 x i64> %v166, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v168 = bitcast <8 x i64> %v167 to <16 x i32>
  %v169 = bitcast <16 x i32> %v80 to <8 x i64>
  %v170 = bitcast <16 x i32> %v90 to <8 x i64>
  %v171 = shufflevector <8 x i64> %v169, <8 x i64> %v170, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v172 = bitcast <8 x i64> %v171 to <16 x i32>
  %v173 = bitcast <16 x i32> %v80 to <8 x i64>
  %v174 = bitcast <16 x i32> %v90 to <8 x i64>
  %v175 = shufflevector <8 x i64> %v173, <8 x i64> %v174, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v176 = bitcast <8 x i64> %v175 to <16 x i32>
  br label %v177
v177:
  %v178 = bitcast <16 x i32> %v164 to <8 x i64>
  %v179 = bitcast <16 x i32> %v172 to <8 x i64>
  %v180 = shufflevector <8 x i64> %v178, <8 x i64> %v179, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 8, i32 9, i32 10, i32 11>
  %v181 = bitcast <8 x i64> %v180 to <16 x i32>
  %v182 = bitcast <16 x i32> %v164 to <8 x i64>
  %v183 = bitcast <16 x i32> %v172 to <8 x i64>
  %v184 = shufflevector <8 x i64> %v182, <8 x i64> %v183, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 12, i32 13, i32 14, i32 15>
  %v185 = bitcast <8 x i64> %v184 to <16 x i32>
  %v186 = bitcast <16 x i32> %v168 to <8 x i64>
  %v187 = bitcast <16 x i32> %v176 to <8 x i64>
  %v188 = shufflevector <8 x i64> %v186, <8 x i64> %v187, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 8, i32 9, i32 10, i32 11>
  %v189 = bitcast <8 x i64> %v188 to <16 x i32>
  %v190 = bitcast <16 x i32> %v168 to <8 x i64>
  %v191 = bitcast <16 x i32> %v176 to <8 x i64>
  %v192 = shufflevector <8 x i64> %v190, <8 x i64> %v191, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 12, i32 13, i32 14, i32 15>
  %v193 = bitcast <8 x i64> %v192 to <16 x i32>
  br label %v194
v194:
  %v195 = bitcast <16 x i32> %v61 to <8 x i64>
  %v196 = bitcast <16 x i32> %v71 to <8 x i64>
  %v197 = shufflevector <8 x i64> %v195, <8 x i64> %v196, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v198 = bitcast <8 x i64> %v197 to <16 x i32>
  %v199 = bitcast <16 x i32> %v61 to <8 x i64>
  %v200 = bitcast <16 x i32> %v71 to <8 x i64>
  %v201 = shufflevector <8 x i64> %v199, <8 x i64> %v200, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v202 = bitcast <8 x i64> %v201 to <16 x i32>
  %v203 = bitcast <16 x i32> %v81 to <8 x i64>
  %v204 = bitcast <16 x i32> %v91 to <8 x i64>
  %v205 = shufflevector <8 x i64> %v203, <8 x i64> %v204, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v206 = bitcast <8 x i64> %v205 to <16 x i32>
  %v207 = bitcast <16 x i32> %v81 to <8 x i64>
  %v208 = bitcast <16 x i32> %v91 to <8 x i64>
  %v209 = shufflevector <8 x i64> %v207, <8 x i64> %v208, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v210 = bitcast <8 x i64> %v209 to <16 x i32>
  br label %v211
v211:
  %v212 = bitcast <16 x i32> %v198 to <8 x i64>
  %v213 = bitcast <16 x i32> %v206 to <8 x i64>
  %v214 = shufflevector <8 x i64> %v212, <8 x i64> %v213, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 8, i32 9, i32 10, i32 11>
  %v215 = bitcast <8 x i64> %v214 to <16 x i32>
  %v216 = bitcast <16 x i32> %v198 to <8 x i64>
  %v217 = bitcast <16 x i32> %v206 to <8 x i64>
  %v218 = shufflevector <8 x i64> %v216, <8 x i64> %v217, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 12, i32 13, i32 14, i32 15>
  %v219 = bitcast <8 x i64> %v218 to <16 x i32>
  %v220 = bitcast <16 x i32> %v202 to <8 x i64>
  %v221 = bitcast <16 x i32> %v210 to <8 x i64>
  %v222 = shufflevector <8 x i64> %v220, <8 x i64> %v221, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 8, i32 9, i32 10, i32 11>
  %v223 = bitcast <8 x i64> %v222 to <16 x i32>
  %v224 = bitcast <16 x i32> %v202 to <8 x i64>
  %v225 = bitcast <16 x i32> %v210 to <8 x i64>
  %v226 = shufflevector <8 x i64> %v224, <8 x i64> %v225, <8 x i32> <i32 4, i32 5, i32 6, i32 7, i32 12, i32 13, i32 14, i32 15>
  %v227 = bitcast <8 x i64> %v226 to <16 x i32>
  store <16 x i32> %v113, ptr %v21, align 1
  %v228 = getelementptr i8, ptr %v21, i64 64
  store <16 x i32> %v147, ptr %v228, align 1
  %v229 = getelementptr i8, ptr %v21, i64 128
  store <16 x i32> %v181, ptr %v229, align 1
  %v230 = getelementptr i8, ptr %v21, i64 192
  store <16 x i32> %v215, ptr %v230, align 1
  %v231 = getelementptr i8, ptr %v21, i64 256
  store <16 x i32> %v121, ptr %v231, align 1
  %v232 = getelementptr i8, ptr %v21, i64 320
  store <16 x i32> %v155, ptr %v232, align 1
  %v233 = getelementptr i8, ptr %v21, i64 384
  store <16 x i32> %v189, ptr %v233, align 1
  %v234 = getelementptr i8, ptr %v21, i64 448
  store <16 x i32> %v223, ptr %v234, align 1
  %v235 = getelementptr i8, ptr %v21, i64 512
  store <16 x i32> %v117, ptr %v235, align 1
  %v236 = getelementptr i8, ptr %v21, i64 576
  store <16 x i32> %v151, ptr %v236, align 1
  %v237 = getelementptr i8, ptr %v21, i64 640
  store <16 x i32> %v185, ptr %v237, align 1
  %v238 = getelementptr i8, ptr %v21, i64 704
  store <16 x i32> %v219, ptr %v238, align 1
  %v239 = getelementptr i8, ptr %v21, i64 768
  store <16 x i32> %v125, ptr %v239, align 1
  %v240 = getelementptr i8, ptr %v21, i64 832
  store <16 x i32> %v159, ptr %v240, align 1
  %v241 = getelementptr i8, ptr %v21, i64 896
  store <16 x i32> %v193, ptr %v241, align 1
  %v242 = getelementptr i8, ptr %v21, i64 960
  store <16 x i32> %v227, ptr %v242, align 1
  %v16 = add nuw nsw i64 %v15, 1
  %v243 = icmp slt i64 %v16, 4
  br i1 %v243, label %v13, label %v14
v14:
  %v7 = add nuw nsw i64 %v6, 1
  %v244 = icmp slt i64 %v7, 2
  br i1 %v244, label %v4, label %v5
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
; # transpose of a0 2, a1 64, a2 16: the contiguous axes of the two sides differ
; tile(a1, 8) · tile(a2, 8) · reorder(a0, a2, a1)
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
  %v24 = phi i64 [ 0, %v13 ], [ %v25, %v92 ]
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
  %v66 = bitcast <8 x i32> %v51 to <4 x i64>
  %v67 = bitcast <8 x i32> %v61 to <4 x i64>
  %v68 = shufflevector <4 x i64> %v66, <4 x i64> %v67, <4 x i32> <i32 0, i32 1, i32 4, i32 5>
  %v69 = bitcast <4 x i64> %v68 to <8 x i32>
  %v70 = bitcast <8 x i32> %v51 to <4 x i64>
  %v71 = bitcast <8 x i32> %v61 to <4 x i64>
  %v72 = shufflevector <4 x i64> %v70, <4 x i64> %v71, <4 x i32> <i32 2, i32 3, i32 6, i32 7>
  %v73 = bitcast <4 x i64> %v72 to <8 x i32>
  br label %v74
v74:
  %v75 = bitcast <8 x i32> %v52 to <4 x i64>
  %v76 = bitcast <8 x i32> %v62 to <4 x i64>
  %v77 = shufflevector <4 x i64> %v75, <4 x i64> %v76, <4 x i32> <i32 0, i32 1, i32 4, i32 5>
  %v78 = bitcast <4 x i64> %v77 to <8 x i32>
  %v79 = bitcast <8 x i32> %v52 to <4 x i64>
  %v80 = bitcast <8 x i32> %v62 to <4 x i64>
  %v81 = shufflevector <4 x i64> %v79, <4 x i64> %v80, <4 x i32> <i32 2, i32 3, i32 6, i32 7>
  %v82 = bitcast <4 x i64> %v81 to <8 x i32>
  br label %v83
v83:
  %v84 = bitcast <8 x i32> %v53 to <4 x i64>
  %v85 = bitcast <8 x i32> %v63 to <4 x i64>
  %v86 = shufflevector <4 x i64> %v84, <4 x i64> %v85, <4 x i32> <i32 0, i32 1, i32 4, i32 5>
  %v87 = bitcast <4 x i64> %v86 to <8 x i32>
  %v88 = bitcast <8 x i32> %v53 to <4 x i64>
  %v89 = bitcast <8 x i32> %v63 to <4 x i64>
  %v90 = shufflevector <4 x i64> %v88, <4 x i64> %v89, <4 x i32> <i32 2, i32 3, i32 6, i32 7>
  %v91 = bitcast <4 x i64> %v90 to <8 x i32>
  br label %v92
v92:
  %v93 = bitcast <8 x i32> %v54 to <4 x i64>
  %v94 = bitcast <8 x i32> %v64 to <4 x i64>
  %v95 = shufflevector <4 x i64> %v93, <4 x i64> %v94, <4 x i32> <i32 0, i32 1, i32 4, i32 5>
  %v96 = bitcast <4 x i64> %v95 to <8 x i32>
  %v97 = bitcast <8 x i32> %v54 to <4 x i64>
  %v98 = bitcast <8 x i32> %v64 to <4 x i64>
  %v99 = shufflevector <4 x i64> %v97, <4 x i64> %v98, <4 x i32> <i32 2, i32 3, i32 6, i32 7>
  %v100 = bitcast <4 x i64> %v99 to <8 x i32>
  store <8 x i32> %v69, ptr %v30, align 1
  %v101 = getelementptr i8, ptr %v30, i64 64
  store <8 x i32> %v78, ptr %v101, align 1
  %v102 = getelementptr i8, ptr %v30, i64 128
  store <8 x i32> %v87, ptr %v102, align 1
  %v103 = getelementptr i8, ptr %v30, i64 192
  store <8 x i32> %v96, ptr %v103, align 1
  %v104 = getelementptr i8, ptr %v30, i64 256
  store <8 x i32> %v73, ptr %v104, align 1
  %v105 = getelementptr i8, ptr %v30, i64 320
  store <8 x i32> %v82, ptr %v105, align 1
  %v106 = getelementptr i8, ptr %v30, i64 384
  store <8 x i32> %v91, ptr %v106, align 1
  %v107 = getelementptr i8, ptr %v30, i64 448
  store <8 x i32> %v100, ptr %v107, align 1
  %v25 = add nuw nsw i64 %v24, 1
  %v108 = icmp slt i64 %v25, 8
  br i1 %v108, label %v22, label %v23
v23:
  %v16 = add nuw nsw i64 %v15, 1
  %v109 = icmp slt i64 %v16, 2
  br i1 %v109, label %v13, label %v14
v14:
  %v7 = add nuw nsw i64 %v6, 1
  %v110 = icmp slt i64 %v7, 2
  br i1 %v110, label %v4, label %v5
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
; # transpose of a0 2, a1 64, a2 16: the contiguous axes of the two sides differ
; tile(a1, 4) · tile(a2, 4) · reorder(a0, a2, a1)
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
