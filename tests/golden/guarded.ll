; src u8 + 0, dst u8 + 0
; dim 0: read below 3, zero below 4
; dim 1: read below 3, zero below 4
; dim 2: read below 3, zero below 4
; dim 3: read below 3, zero below 4
; dim 4: read below 3, zero below 4
; dim 5: read below 3, zero below 4
; for 2: src += 486, dst += 2048 (dim 0 step 2)
;   for 2: src += 243, dst += 32 (dim 0 step 1)
;     for 2: src += 162, dst += 1024 (dim 1 step 2)
;       for 2: src += 81, dst += 16 (dim 1 step 1)
;         for 2: src += 54, dst += 512 (dim 2 step 2)
;           for 2: src += 27, dst += 8 (dim 2 step 1)
;             for 2: src += 18, dst += 256 (dim 3 step 2)
;               for 2: src += 9, dst += 4 (dim 3 step 1)
;                 for 2: src += 6, dst += 128 (dim 4 step 2)
;                   for 2: src += 3, dst += 2 (dim 4 step 1)
;                     for 2: src += 2, dst += 64 (dim 5 step 2)
;                       for 2: src += 1, dst += 1 (dim 5 step 1)
;                         dst = u8(src)

; --- avx512
; guarded (too many partial blocks to peel)
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v1 = mul i64 %part, 2
  %v2 = udiv i64 %v1, %parts
  %v3 = add i64 %part, 1
  %v4 = mul i64 %v3, 2
  %v5 = udiv i64 %v4, %parts
  %v10 = icmp slt i64 %v2, %v5
  br i1 %v10, label %v6, label %v7
v6:
  %v8 = phi i64 [ %v2, %entry ], [ %v9, %v18 ]
  %v11 = mul i64 %v8, 486
  %v12 = getelementptr i8, ptr %src, i64 %v11
  %v13 = mul i64 %v8, 2048
  %v14 = getelementptr i8, ptr %dst, i64 %v13
  %v15 = mul i64 %v8, 2
  %v16 = add i64 0, %v15
  %v21 = icmp slt i64 0, 2
  br i1 %v21, label %v17, label %v18
v17:
  %v19 = phi i64 [ 0, %v6 ], [ %v20, %v29 ]
  %v22 = mul i64 %v19, 243
  %v23 = getelementptr i8, ptr %v12, i64 %v22
  %v24 = mul i64 %v19, 32
  %v25 = getelementptr i8, ptr %v14, i64 %v24
  %v26 = mul i64 %v19, 1
  %v27 = add i64 %v16, %v26
  %v32 = icmp slt i64 0, 2
  br i1 %v32, label %v28, label %v29
v28:
  %v30 = phi i64 [ 0, %v17 ], [ %v31, %v40 ]
  %v33 = mul i64 %v30, 162
  %v34 = getelementptr i8, ptr %v23, i64 %v33
  %v35 = mul i64 %v30, 1024
  %v36 = getelementptr i8, ptr %v25, i64 %v35
  %v37 = mul i64 %v30, 2
  %v38 = add i64 0, %v37
  %v43 = icmp slt i64 0, 2
  br i1 %v43, label %v39, label %v40
v39:
  %v41 = phi i64 [ 0, %v28 ], [ %v42, %v51 ]
  %v44 = mul i64 %v41, 81
  %v45 = getelementptr i8, ptr %v34, i64 %v44
  %v46 = mul i64 %v41, 16
  %v47 = getelementptr i8, ptr %v36, i64 %v46
  %v48 = mul i64 %v41, 1
  %v49 = add i64 %v38, %v48
  %v54 = icmp slt i64 0, 2
  br i1 %v54, label %v50, label %v51
v50:
  %v52 = phi i64 [ 0, %v39 ], [ %v53, %v62 ]
  %v55 = mul i64 %v52, 54
  %v56 = getelementptr i8, ptr %v45, i64 %v55
  %v57 = mul i64 %v52, 512
  %v58 = getelementptr i8, ptr %v47, i64 %v57
  %v59 = mul i64 %v52, 2
  %v60 = add i64 0, %v59
  %v65 = icmp slt i64 0, 2
  br i1 %v65, label %v61, label %v62
v61:
  %v63 = phi i64 [ 0, %v50 ], [ %v64, %v73 ]
  %v66 = mul i64 %v63, 27
  %v67 = getelementptr i8, ptr %v56, i64 %v66
  %v68 = mul i64 %v63, 8
  %v69 = getelementptr i8, ptr %v58, i64 %v68
  %v70 = mul i64 %v63, 1
  %v71 = add i64 %v60, %v70
  %v76 = icmp slt i64 0, 2
  br i1 %v76, label %v72, label %v73
v72:
  %v74 = phi i64 [ 0, %v61 ], [ %v75, %v84 ]
  %v77 = mul i64 %v74, 18
  %v78 = getelementptr i8, ptr %v67, i64 %v77
  %v79 = mul i64 %v74, 256
  %v80 = getelementptr i8, ptr %v69, i64 %v79
  %v81 = mul i64 %v74, 2
  %v82 = add i64 0, %v81
  %v87 = icmp slt i64 0, 2
  br i1 %v87, label %v83, label %v84
v83:
  %v85 = phi i64 [ 0, %v72 ], [ %v86, %v95 ]
  %v88 = mul i64 %v85, 9
  %v89 = getelementptr i8, ptr %v78, i64 %v88
  %v90 = mul i64 %v85, 4
  %v91 = getelementptr i8, ptr %v80, i64 %v90
  %v92 = mul i64 %v85, 1
  %v93 = add i64 %v82, %v92
  %v98 = icmp slt i64 0, 2
  br i1 %v98, label %v94, label %v95
v94:
  %v96 = phi i64 [ 0, %v83 ], [ %v97, %v106 ]
  %v99 = mul i64 %v96, 6
  %v100 = getelementptr i8, ptr %v89, i64 %v99
  %v101 = mul i64 %v96, 128
  %v102 = getelementptr i8, ptr %v91, i64 %v101
  %v103 = mul i64 %v96, 2
  %v104 = add i64 0, %v103
  %v109 = icmp slt i64 0, 2
  br i1 %v109, label %v105, label %v106
v105:
  %v107 = phi i64 [ 0, %v94 ], [ %v108, %v117 ]
  %v110 = mul i64 %v107, 3
  %v111 = getelementptr i8, ptr %v100, i64 %v110
  %v112 = mul i64 %v107, 2
  %v113 = getelementptr i8, ptr %v102, i64 %v112
  %v114 = mul i64 %v107, 1
  %v115 = add i64 %v104, %v114
  %v120 = icmp slt i64 0, 2
  br i1 %v120, label %v116, label %v117
v116:
  %v118 = phi i64 [ 0, %v105 ], [ %v119, %v128 ]
  %v121 = mul i64 %v118, 2
  %v122 = getelementptr i8, ptr %v111, i64 %v121
  %v123 = mul i64 %v118, 64
  %v124 = getelementptr i8, ptr %v113, i64 %v123
  %v125 = mul i64 %v118, 2
  %v126 = add i64 0, %v125
  %v131 = icmp slt i64 0, 2
  br i1 %v131, label %v127, label %v128
v127:
  %v129 = phi i64 [ 0, %v116 ], [ %v130, %v151 ]
  %v132 = mul i64 %v129, 1
  %v133 = getelementptr i8, ptr %v122, i64 %v132
  %v134 = mul i64 %v129, 1
  %v135 = getelementptr i8, ptr %v124, i64 %v134
  %v136 = mul i64 %v129, 1
  %v137 = add i64 %v126, %v136
  %v138 = icmp slt i64 %v27, 4
  %v139 = and i1 true, %v138
  %v140 = icmp slt i64 %v49, 4
  %v141 = and i1 %v139, %v140
  %v142 = icmp slt i64 %v71, 4
  %v143 = and i1 %v141, %v142
  %v144 = icmp slt i64 %v93, 4
  %v145 = and i1 %v143, %v144
  %v146 = icmp slt i64 %v115, 4
  %v147 = and i1 %v145, %v146
  %v148 = icmp slt i64 %v137, 4
  %v149 = and i1 %v147, %v148
  %v152 = icmp eq i1 %v149, true
  br i1 %v152, label %v150, label %v151
v150:
  %v153 = icmp slt i64 %v27, 3
  %v154 = and i1 true, %v153
  %v155 = icmp slt i64 %v49, 3
  %v156 = and i1 %v154, %v155
  %v157 = icmp slt i64 %v71, 3
  %v158 = and i1 %v156, %v157
  %v159 = icmp slt i64 %v93, 3
  %v160 = and i1 %v158, %v159
  %v161 = icmp slt i64 %v115, 3
  %v162 = and i1 %v160, %v161
  %v163 = icmp slt i64 %v137, 3
  %v164 = and i1 %v162, %v163
  %v167 = icmp eq i1 %v164, true
  br i1 %v167, label %v165, label %v166
v165:
  %v168 = load i8, ptr %v133, align 1
  %v169 = insertelement <1 x i8> zeroinitializer, i8 %v168, i64 0
  %v170 = extractelement <1 x i8> %v169, i64 0
  store i8 %v170, ptr %v135, align 1
  br label %v166
v166:
  %v173 = icmp eq i1 %v164, false
  br i1 %v173, label %v171, label %v172
v171:
  %v174 = extractelement <1 x i8> zeroinitializer, i64 0
  store i8 %v174, ptr %v135, align 1
  br label %v172
v172:
  br label %v151
v151:
  %v130 = add nuw nsw i64 %v129, 1
  %v175 = icmp slt i64 %v130, 2
  br i1 %v175, label %v127, label %v128
v128:
  %v119 = add nuw nsw i64 %v118, 1
  %v176 = icmp slt i64 %v119, 2
  br i1 %v176, label %v116, label %v117
v117:
  %v108 = add nuw nsw i64 %v107, 1
  %v177 = icmp slt i64 %v108, 2
  br i1 %v177, label %v105, label %v106
v106:
  %v97 = add nuw nsw i64 %v96, 1
  %v178 = icmp slt i64 %v97, 2
  br i1 %v178, label %v94, label %v95
v95:
  %v86 = add nuw nsw i64 %v85, 1
  %v179 = icmp slt i64 %v86, 2
  br i1 %v179, label %v83, label %v84
v84:
  %v75 = add nuw nsw i64 %v74, 1
  %v180 = icmp slt i64 %v75, 2
  br i1 %v180, label %v72, label %v73
v73:
  %v64 = add nuw nsw i64 %v63, 1
  %v181 = icmp slt i64 %v64, 2
  br i1 %v181, label %v61, label %v62
v62:
  %v53 = add nuw nsw i64 %v52, 1
  %v182 = icmp slt i64 %v53, 2
  br i1 %v182, label %v50, label %v51
v51:
  %v42 = add nuw nsw i64 %v41, 1
  %v183 = icmp slt i64 %v42, 2
  br i1 %v183, label %v39, label %v40
v40:
  %v31 = add nuw nsw i64 %v30, 1
  %v184 = icmp slt i64 %v31, 2
  br i1 %v184, label %v28, label %v29
v29:
  %v20 = add nuw nsw i64 %v19, 1
  %v185 = icmp slt i64 %v20, 2
  br i1 %v185, label %v17, label %v18
v18:
  %v9 = add nuw nsw i64 %v8, 1
  %v186 = icmp slt i64 %v9, %v5
  br i1 %v186, label %v6, label %v7
v7:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
!0 = !{i32 1}

; --- avx2
; guarded (too many partial blocks to peel)
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v1 = mul i64 %part, 2
  %v2 = udiv i64 %v1, %parts
  %v3 = add i64 %part, 1
  %v4 = mul i64 %v3, 2
  %v5 = udiv i64 %v4, %parts
  %v10 = icmp slt i64 %v2, %v5
  br i1 %v10, label %v6, label %v7
v6:
  %v8 = phi i64 [ %v2, %entry ], [ %v9, %v18 ]
  %v11 = mul i64 %v8, 486
  %v12 = getelementptr i8, ptr %src, i64 %v11
  %v13 = mul i64 %v8, 2048
  %v14 = getelementptr i8, ptr %dst, i64 %v13
  %v15 = mul i64 %v8, 2
  %v16 = add i64 0, %v15
  %v21 = icmp slt i64 0, 2
  br i1 %v21, label %v17, label %v18
v17:
  %v19 = phi i64 [ 0, %v6 ], [ %v20, %v29 ]
  %v22 = mul i64 %v19, 243
  %v23 = getelementptr i8, ptr %v12, i64 %v22
  %v24 = mul i64 %v19, 32
  %v25 = getelementptr i8, ptr %v14, i64 %v24
  %v26 = mul i64 %v19, 1
  %v27 = add i64 %v16, %v26
  %v32 = icmp slt i64 0, 2
  br i1 %v32, label %v28, label %v29
v28:
  %v30 = phi i64 [ 0, %v17 ], [ %v31, %v40 ]
  %v33 = mul i64 %v30, 162
  %v34 = getelementptr i8, ptr %v23, i64 %v33
  %v35 = mul i64 %v30, 1024
  %v36 = getelementptr i8, ptr %v25, i64 %v35
  %v37 = mul i64 %v30, 2
  %v38 = add i64 0, %v37
  %v43 = icmp slt i64 0, 2
  br i1 %v43, label %v39, label %v40
v39:
  %v41 = phi i64 [ 0, %v28 ], [ %v42, %v51 ]
  %v44 = mul i64 %v41, 81
  %v45 = getelementptr i8, ptr %v34, i64 %v44
  %v46 = mul i64 %v41, 16
  %v47 = getelementptr i8, ptr %v36, i64 %v46
  %v48 = mul i64 %v41, 1
  %v49 = add i64 %v38, %v48
  %v54 = icmp slt i64 0, 2
  br i1 %v54, label %v50, label %v51
v50:
  %v52 = phi i64 [ 0, %v39 ], [ %v53, %v62 ]
  %v55 = mul i64 %v52, 54
  %v56 = getelementptr i8, ptr %v45, i64 %v55
  %v57 = mul i64 %v52, 512
  %v58 = getelementptr i8, ptr %v47, i64 %v57
  %v59 = mul i64 %v52, 2
  %v60 = add i64 0, %v59
  %v65 = icmp slt i64 0, 2
  br i1 %v65, label %v61, label %v62
v61:
  %v63 = phi i64 [ 0, %v50 ], [ %v64, %v73 ]
  %v66 = mul i64 %v63, 27
  %v67 = getelementptr i8, ptr %v56, i64 %v66
  %v68 = mul i64 %v63, 8
  %v69 = getelementptr i8, ptr %v58, i64 %v68
  %v70 = mul i64 %v63, 1
  %v71 = add i64 %v60, %v70
  %v76 = icmp slt i64 0, 2
  br i1 %v76, label %v72, label %v73
v72:
  %v74 = phi i64 [ 0, %v61 ], [ %v75, %v84 ]
  %v77 = mul i64 %v74, 18
  %v78 = getelementptr i8, ptr %v67, i64 %v77
  %v79 = mul i64 %v74, 256
  %v80 = getelementptr i8, ptr %v69, i64 %v79
  %v81 = mul i64 %v74, 2
  %v82 = add i64 0, %v81
  %v87 = icmp slt i64 0, 2
  br i1 %v87, label %v83, label %v84
v83:
  %v85 = phi i64 [ 0, %v72 ], [ %v86, %v95 ]
  %v88 = mul i64 %v85, 9
  %v89 = getelementptr i8, ptr %v78, i64 %v88
  %v90 = mul i64 %v85, 4
  %v91 = getelementptr i8, ptr %v80, i64 %v90
  %v92 = mul i64 %v85, 1
  %v93 = add i64 %v82, %v92
  %v98 = icmp slt i64 0, 2
  br i1 %v98, label %v94, label %v95
v94:
  %v96 = phi i64 [ 0, %v83 ], [ %v97, %v106 ]
  %v99 = mul i64 %v96, 6
  %v100 = getelementptr i8, ptr %v89, i64 %v99
  %v101 = mul i64 %v96, 128
  %v102 = getelementptr i8, ptr %v91, i64 %v101
  %v103 = mul i64 %v96, 2
  %v104 = add i64 0, %v103
  %v109 = icmp slt i64 0, 2
  br i1 %v109, label %v105, label %v106
v105:
  %v107 = phi i64 [ 0, %v94 ], [ %v108, %v117 ]
  %v110 = mul i64 %v107, 3
  %v111 = getelementptr i8, ptr %v100, i64 %v110
  %v112 = mul i64 %v107, 2
  %v113 = getelementptr i8, ptr %v102, i64 %v112
  %v114 = mul i64 %v107, 1
  %v115 = add i64 %v104, %v114
  %v120 = icmp slt i64 0, 2
  br i1 %v120, label %v116, label %v117
v116:
  %v118 = phi i64 [ 0, %v105 ], [ %v119, %v128 ]
  %v121 = mul i64 %v118, 2
  %v122 = getelementptr i8, ptr %v111, i64 %v121
  %v123 = mul i64 %v118, 64
  %v124 = getelementptr i8, ptr %v113, i64 %v123
  %v125 = mul i64 %v118, 2
  %v126 = add i64 0, %v125
  %v131 = icmp slt i64 0, 2
  br i1 %v131, label %v127, label %v128
v127:
  %v129 = phi i64 [ 0, %v116 ], [ %v130, %v151 ]
  %v132 = mul i64 %v129, 1
  %v133 = getelementptr i8, ptr %v122, i64 %v132
  %v134 = mul i64 %v129, 1
  %v135 = getelementptr i8, ptr %v124, i64 %v134
  %v136 = mul i64 %v129, 1
  %v137 = add i64 %v126, %v136
  %v138 = icmp slt i64 %v27, 4
  %v139 = and i1 true, %v138
  %v140 = icmp slt i64 %v49, 4
  %v141 = and i1 %v139, %v140
  %v142 = icmp slt i64 %v71, 4
  %v143 = and i1 %v141, %v142
  %v144 = icmp slt i64 %v93, 4
  %v145 = and i1 %v143, %v144
  %v146 = icmp slt i64 %v115, 4
  %v147 = and i1 %v145, %v146
  %v148 = icmp slt i64 %v137, 4
  %v149 = and i1 %v147, %v148
  %v152 = icmp eq i1 %v149, true
  br i1 %v152, label %v150, label %v151
v150:
  %v153 = icmp slt i64 %v27, 3
  %v154 = and i1 true, %v153
  %v155 = icmp slt i64 %v49, 3
  %v156 = and i1 %v154, %v155
  %v157 = icmp slt i64 %v71, 3
  %v158 = and i1 %v156, %v157
  %v159 = icmp slt i64 %v93, 3
  %v160 = and i1 %v158, %v159
  %v161 = icmp slt i64 %v115, 3
  %v162 = and i1 %v160, %v161
  %v163 = icmp slt i64 %v137, 3
  %v164 = and i1 %v162, %v163
  %v167 = icmp eq i1 %v164, true
  br i1 %v167, label %v165, label %v166
v165:
  %v168 = load i8, ptr %v133, align 1
  %v169 = insertelement <1 x i8> zeroinitializer, i8 %v168, i64 0
  %v170 = extractelement <1 x i8> %v169, i64 0
  store i8 %v170, ptr %v135, align 1
  br label %v166
v166:
  %v173 = icmp eq i1 %v164, false
  br i1 %v173, label %v171, label %v172
v171:
  %v174 = extractelement <1 x i8> zeroinitializer, i64 0
  store i8 %v174, ptr %v135, align 1
  br label %v172
v172:
  br label %v151
v151:
  %v130 = add nuw nsw i64 %v129, 1
  %v175 = icmp slt i64 %v130, 2
  br i1 %v175, label %v127, label %v128
v128:
  %v119 = add nuw nsw i64 %v118, 1
  %v176 = icmp slt i64 %v119, 2
  br i1 %v176, label %v116, label %v117
v117:
  %v108 = add nuw nsw i64 %v107, 1
  %v177 = icmp slt i64 %v108, 2
  br i1 %v177, label %v105, label %v106
v106:
  %v97 = add nuw nsw i64 %v96, 1
  %v178 = icmp slt i64 %v97, 2
  br i1 %v178, label %v94, label %v95
v95:
  %v86 = add nuw nsw i64 %v85, 1
  %v179 = icmp slt i64 %v86, 2
  br i1 %v179, label %v83, label %v84
v84:
  %v75 = add nuw nsw i64 %v74, 1
  %v180 = icmp slt i64 %v75, 2
  br i1 %v180, label %v72, label %v73
v73:
  %v64 = add nuw nsw i64 %v63, 1
  %v181 = icmp slt i64 %v64, 2
  br i1 %v181, label %v61, label %v62
v62:
  %v53 = add nuw nsw i64 %v52, 1
  %v182 = icmp slt i64 %v53, 2
  br i1 %v182, label %v50, label %v51
v51:
  %v42 = add nuw nsw i64 %v41, 1
  %v183 = icmp slt i64 %v42, 2
  br i1 %v183, label %v39, label %v40
v40:
  %v31 = add nuw nsw i64 %v30, 1
  %v184 = icmp slt i64 %v31, 2
  br i1 %v184, label %v28, label %v29
v29:
  %v20 = add nuw nsw i64 %v19, 1
  %v185 = icmp slt i64 %v20, 2
  br i1 %v185, label %v17, label %v18
v18:
  %v9 = add nuw nsw i64 %v8, 1
  %v186 = icmp slt i64 %v9, %v5
  br i1 %v186, label %v6, label %v7
v7:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
!0 = !{i32 1}

; --- neon
; guarded (too many partial blocks to peel)
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v1 = mul i64 %part, 2
  %v2 = udiv i64 %v1, %parts
  %v3 = add i64 %part, 1
  %v4 = mul i64 %v3, 2
  %v5 = udiv i64 %v4, %parts
  %v10 = icmp slt i64 %v2, %v5
  br i1 %v10, label %v6, label %v7
v6:
  %v8 = phi i64 [ %v2, %entry ], [ %v9, %v18 ]
  %v11 = mul i64 %v8, 486
  %v12 = getelementptr i8, ptr %src, i64 %v11
  %v13 = mul i64 %v8, 2048
  %v14 = getelementptr i8, ptr %dst, i64 %v13
  %v15 = mul i64 %v8, 2
  %v16 = add i64 0, %v15
  %v21 = icmp slt i64 0, 2
  br i1 %v21, label %v17, label %v18
v17:
  %v19 = phi i64 [ 0, %v6 ], [ %v20, %v29 ]
  %v22 = mul i64 %v19, 243
  %v23 = getelementptr i8, ptr %v12, i64 %v22
  %v24 = mul i64 %v19, 32
  %v25 = getelementptr i8, ptr %v14, i64 %v24
  %v26 = mul i64 %v19, 1
  %v27 = add i64 %v16, %v26
  %v32 = icmp slt i64 0, 2
  br i1 %v32, label %v28, label %v29
v28:
  %v30 = phi i64 [ 0, %v17 ], [ %v31, %v40 ]
  %v33 = mul i64 %v30, 162
  %v34 = getelementptr i8, ptr %v23, i64 %v33
  %v35 = mul i64 %v30, 1024
  %v36 = getelementptr i8, ptr %v25, i64 %v35
  %v37 = mul i64 %v30, 2
  %v38 = add i64 0, %v37
  %v43 = icmp slt i64 0, 2
  br i1 %v43, label %v39, label %v40
v39:
  %v41 = phi i64 [ 0, %v28 ], [ %v42, %v51 ]
  %v44 = mul i64 %v41, 81
  %v45 = getelementptr i8, ptr %v34, i64 %v44
  %v46 = mul i64 %v41, 16
  %v47 = getelementptr i8, ptr %v36, i64 %v46
  %v48 = mul i64 %v41, 1
  %v49 = add i64 %v38, %v48
  %v54 = icmp slt i64 0, 2
  br i1 %v54, label %v50, label %v51
v50:
  %v52 = phi i64 [ 0, %v39 ], [ %v53, %v62 ]
  %v55 = mul i64 %v52, 54
  %v56 = getelementptr i8, ptr %v45, i64 %v55
  %v57 = mul i64 %v52, 512
  %v58 = getelementptr i8, ptr %v47, i64 %v57
  %v59 = mul i64 %v52, 2
  %v60 = add i64 0, %v59
  %v65 = icmp slt i64 0, 2
  br i1 %v65, label %v61, label %v62
v61:
  %v63 = phi i64 [ 0, %v50 ], [ %v64, %v73 ]
  %v66 = mul i64 %v63, 27
  %v67 = getelementptr i8, ptr %v56, i64 %v66
  %v68 = mul i64 %v63, 8
  %v69 = getelementptr i8, ptr %v58, i64 %v68
  %v70 = mul i64 %v63, 1
  %v71 = add i64 %v60, %v70
  %v76 = icmp slt i64 0, 2
  br i1 %v76, label %v72, label %v73
v72:
  %v74 = phi i64 [ 0, %v61 ], [ %v75, %v84 ]
  %v77 = mul i64 %v74, 18
  %v78 = getelementptr i8, ptr %v67, i64 %v77
  %v79 = mul i64 %v74, 256
  %v80 = getelementptr i8, ptr %v69, i64 %v79
  %v81 = mul i64 %v74, 2
  %v82 = add i64 0, %v81
  %v87 = icmp slt i64 0, 2
  br i1 %v87, label %v83, label %v84
v83:
  %v85 = phi i64 [ 0, %v72 ], [ %v86, %v95 ]
  %v88 = mul i64 %v85, 9
  %v89 = getelementptr i8, ptr %v78, i64 %v88
  %v90 = mul i64 %v85, 4
  %v91 = getelementptr i8, ptr %v80, i64 %v90
  %v92 = mul i64 %v85, 1
  %v93 = add i64 %v82, %v92
  %v98 = icmp slt i64 0, 2
  br i1 %v98, label %v94, label %v95
v94:
  %v96 = phi i64 [ 0, %v83 ], [ %v97, %v106 ]
  %v99 = mul i64 %v96, 6
  %v100 = getelementptr i8, ptr %v89, i64 %v99
  %v101 = mul i64 %v96, 128
  %v102 = getelementptr i8, ptr %v91, i64 %v101
  %v103 = mul i64 %v96, 2
  %v104 = add i64 0, %v103
  %v109 = icmp slt i64 0, 2
  br i1 %v109, label %v105, label %v106
v105:
  %v107 = phi i64 [ 0, %v94 ], [ %v108, %v117 ]
  %v110 = mul i64 %v107, 3
  %v111 = getelementptr i8, ptr %v100, i64 %v110
  %v112 = mul i64 %v107, 2
  %v113 = getelementptr i8, ptr %v102, i64 %v112
  %v114 = mul i64 %v107, 1
  %v115 = add i64 %v104, %v114
  %v120 = icmp slt i64 0, 2
  br i1 %v120, label %v116, label %v117
v116:
  %v118 = phi i64 [ 0, %v105 ], [ %v119, %v128 ]
  %v121 = mul i64 %v118, 2
  %v122 = getelementptr i8, ptr %v111, i64 %v121
  %v123 = mul i64 %v118, 64
  %v124 = getelementptr i8, ptr %v113, i64 %v123
  %v125 = mul i64 %v118, 2
  %v126 = add i64 0, %v125
  %v131 = icmp slt i64 0, 2
  br i1 %v131, label %v127, label %v128
v127:
  %v129 = phi i64 [ 0, %v116 ], [ %v130, %v151 ]
  %v132 = mul i64 %v129, 1
  %v133 = getelementptr i8, ptr %v122, i64 %v132
  %v134 = mul i64 %v129, 1
  %v135 = getelementptr i8, ptr %v124, i64 %v134
  %v136 = mul i64 %v129, 1
  %v137 = add i64 %v126, %v136
  %v138 = icmp slt i64 %v27, 4
  %v139 = and i1 true, %v138
  %v140 = icmp slt i64 %v49, 4
  %v141 = and i1 %v139, %v140
  %v142 = icmp slt i64 %v71, 4
  %v143 = and i1 %v141, %v142
  %v144 = icmp slt i64 %v93, 4
  %v145 = and i1 %v143, %v144
  %v146 = icmp slt i64 %v115, 4
  %v147 = and i1 %v145, %v146
  %v148 = icmp slt i64 %v137, 4
  %v149 = and i1 %v147, %v148
  %v152 = icmp eq i1 %v149, true
  br i1 %v152, label %v150, label %v151
v150:
  %v153 = icmp slt i64 %v27, 3
  %v154 = and i1 true, %v153
  %v155 = icmp slt i64 %v49, 3
  %v156 = and i1 %v154, %v155
  %v157 = icmp slt i64 %v71, 3
  %v158 = and i1 %v156, %v157
  %v159 = icmp slt i64 %v93, 3
  %v160 = and i1 %v158, %v159
  %v161 = icmp slt i64 %v115, 3
  %v162 = and i1 %v160, %v161
  %v163 = icmp slt i64 %v137, 3
  %v164 = and i1 %v162, %v163
  %v167 = icmp eq i1 %v164, true
  br i1 %v167, label %v165, label %v166
v165:
  %v168 = load i8, ptr %v133, align 1
  %v169 = insertelement <1 x i8> zeroinitializer, i8 %v168, i64 0
  %v170 = extractelement <1 x i8> %v169, i64 0
  store i8 %v170, ptr %v135, align 1
  br label %v166
v166:
  %v173 = icmp eq i1 %v164, false
  br i1 %v173, label %v171, label %v172
v171:
  %v174 = extractelement <1 x i8> zeroinitializer, i64 0
  store i8 %v174, ptr %v135, align 1
  br label %v172
v172:
  br label %v151
v151:
  %v130 = add nuw nsw i64 %v129, 1
  %v175 = icmp slt i64 %v130, 2
  br i1 %v175, label %v127, label %v128
v128:
  %v119 = add nuw nsw i64 %v118, 1
  %v176 = icmp slt i64 %v119, 2
  br i1 %v176, label %v116, label %v117
v117:
  %v108 = add nuw nsw i64 %v107, 1
  %v177 = icmp slt i64 %v108, 2
  br i1 %v177, label %v105, label %v106
v106:
  %v97 = add nuw nsw i64 %v96, 1
  %v178 = icmp slt i64 %v97, 2
  br i1 %v178, label %v94, label %v95
v95:
  %v86 = add nuw nsw i64 %v85, 1
  %v179 = icmp slt i64 %v86, 2
  br i1 %v179, label %v83, label %v84
v84:
  %v75 = add nuw nsw i64 %v74, 1
  %v180 = icmp slt i64 %v75, 2
  br i1 %v180, label %v72, label %v73
v73:
  %v64 = add nuw nsw i64 %v63, 1
  %v181 = icmp slt i64 %v64, 2
  br i1 %v181, label %v61, label %v62
v62:
  %v53 = add nuw nsw i64 %v52, 1
  %v182 = icmp slt i64 %v53, 2
  br i1 %v182, label %v50, label %v51
v51:
  %v42 = add nuw nsw i64 %v41, 1
  %v183 = icmp slt i64 %v42, 2
  br i1 %v183, label %v39, label %v40
v40:
  %v31 = add nuw nsw i64 %v30, 1
  %v184 = icmp slt i64 %v31, 2
  br i1 %v184, label %v28, label %v29
v29:
  %v20 = add nuw nsw i64 %v19, 1
  %v185 = icmp slt i64 %v20, 2
  br i1 %v185, label %v17, label %v18
v18:
  %v9 = add nuw nsw i64 %v8, 1
  %v186 = icmp slt i64 %v9, %v5
  br i1 %v186, label %v6, label %v7
v7:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
!0 = !{i32 1}
