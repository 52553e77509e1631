; src f32 + 0, dst f32 + 0
; for 20: src += 100, dst += 1
;   for 33: src += 3, dst += 45
;     dst = f32(src)

; --- avx512
; # strided of a0 33, a1 20: no axis of the source is contiguous
; tile(a1, 8) · reorder(a1, a0)
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v3 = icmp eq i64 %part, 0
  br i1 %v3, label %v1, label %v2
v1:
  %v8 = icmp slt i64 0, 2
  br i1 %v8, label %v4, label %v5
v4:
  %v6 = phi i64 [ 0, %v1 ], [ %v7, %v14 ]
  %v9 = mul i64 %v6, 3200
  %v10 = getelementptr i8, ptr %src, i64 %v9
  %v11 = mul i64 %v6, 32
  %v12 = getelementptr i8, ptr %dst, i64 %v11
  %v17 = icmp slt i64 0, 33
  br i1 %v17, label %v13, label %v14
v13:
  %v15 = phi i64 [ 0, %v4 ], [ %v16, %v13 ]
  %v18 = mul i64 %v15, 12
  %v19 = getelementptr i8, ptr %v10, i64 %v18
  %v20 = mul i64 %v15, 180
  %v21 = getelementptr i8, ptr %v12, i64 %v20
  %v22 = load i32, ptr %v19, align 1
  %v23 = insertelement <8 x i32> zeroinitializer, i32 %v22, i64 0
  %v24 = getelementptr i8, ptr %v19, i64 400
  %v25 = load i32, ptr %v24, align 1
  %v26 = insertelement <8 x i32> %v23, i32 %v25, i64 1
  %v27 = getelementptr i8, ptr %v19, i64 800
  %v28 = load i32, ptr %v27, align 1
  %v29 = insertelement <8 x i32> %v26, i32 %v28, i64 2
  %v30 = getelementptr i8, ptr %v19, i64 1200
  %v31 = load i32, ptr %v30, align 1
  %v32 = insertelement <8 x i32> %v29, i32 %v31, i64 3
  %v33 = getelementptr i8, ptr %v19, i64 1600
  %v34 = load i32, ptr %v33, align 1
  %v35 = insertelement <8 x i32> %v32, i32 %v34, i64 4
  %v36 = getelementptr i8, ptr %v19, i64 2000
  %v37 = load i32, ptr %v36, align 1
  %v38 = insertelement <8 x i32> %v35, i32 %v37, i64 5
  %v39 = getelementptr i8, ptr %v19, i64 2400
  %v40 = load i32, ptr %v39, align 1
  %v41 = insertelement <8 x i32> %v38, i32 %v40, i64 6
  %v42 = getelementptr i8, ptr %v19, i64 2800
  %v43 = load i32, ptr %v42, align 1
  %v44 = insertelement <8 x i32> %v41, i32 %v43, i64 7
  store <8 x i32> %v44, ptr %v21, align 1
  %v16 = add nuw nsw i64 %v15, 1
  %v45 = icmp slt i64 %v16, 33
  br i1 %v45, label %v13, label %v14
v14:
  %v7 = add nuw nsw i64 %v6, 1
  %v46 = icmp slt i64 %v7, 2
  br i1 %v46, label %v4, label %v5
v5:
  %v47 = getelementptr i8, ptr %src, i64 6400
  %v48 = getelementptr i8, ptr %dst, i64 64
  %v53 = icmp slt i64 0, 33
  br i1 %v53, label %v49, label %v50
v49:
  %v51 = phi i64 [ 0, %v5 ], [ %v52, %v49 ]
  %v54 = mul i64 %v51, 12
  %v55 = getelementptr i8, ptr %v47, i64 %v54
  %v56 = mul i64 %v51, 180
  %v57 = getelementptr i8, ptr %v48, i64 %v56
  %v58 = load i32, ptr %v55, align 1
  %v59 = insertelement <4 x i32> zeroinitializer, i32 %v58, i64 0
  %v60 = getelementptr i8, ptr %v55, i64 400
  %v61 = load i32, ptr %v60, align 1
  %v62 = insertelement <4 x i32> %v59, i32 %v61, i64 1
  %v63 = getelementptr i8, ptr %v55, i64 800
  %v64 = load i32, ptr %v63, align 1
  %v65 = insertelement <4 x i32> %v62, i32 %v64, i64 2
  %v66 = getelementptr i8, ptr %v55, i64 1200
  %v67 = load i32, ptr %v66, align 1
  %v68 = insertelement <4 x i32> %v65, i32 %v67, i64 3
  store <4 x i32> %v68, ptr %v57, align 1
  %v52 = add nuw nsw i64 %v51, 1
  %v69 = icmp slt i64 %v52, 33
  br i1 %v69, label %v49, label %v50
v50:
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
; # strided of a0 33, a1 20: no axis of the source is contiguous
; tile(a1, 4) · reorder(a1, a0)
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v3 = icmp eq i64 %part, 0
  br i1 %v3, label %v1, label %v2
v1:
  %v8 = icmp slt i64 0, 5
  br i1 %v8, label %v4, label %v5
v4:
  %v6 = phi i64 [ 0, %v1 ], [ %v7, %v14 ]
  %v9 = mul i64 %v6, 1600
  %v10 = getelementptr i8, ptr %src, i64 %v9
  %v11 = mul i64 %v6, 16
  %v12 = getelementptr i8, ptr %dst, i64 %v11
  %v17 = icmp slt i64 0, 33
  br i1 %v17, label %v13, label %v14
v13:
  %v15 = phi i64 [ 0, %v4 ], [ %v16, %v13 ]
  %v18 = mul i64 %v15, 12
  %v19 = getelementptr i8, ptr %v10, i64 %v18
  %v20 = mul i64 %v15, 180
  %v21 = getelementptr i8, ptr %v12, i64 %v20
  %v22 = load i32, ptr %v19, align 1
  %v23 = insertelement <4 x i32> zeroinitializer, i32 %v22, i64 0
  %v24 = getelementptr i8, ptr %v19, i64 400
  %v25 = load i32, ptr %v24, align 1
  %v26 = insertelement <4 x i32> %v23, i32 %v25, i64 1
  %v27 = getelementptr i8, ptr %v19, i64 800
  %v28 = load i32, ptr %v27, align 1
  %v29 = insertelement <4 x i32> %v26, i32 %v28, i64 2
  %v30 = getelementptr i8, ptr %v19, i64 1200
  %v31 = load i32, ptr %v30, align 1
  %v32 = insertelement <4 x i32> %v29, i32 %v31, i64 3
  store <4 x i32> %v32, ptr %v21, align 1
  %v16 = add nuw nsw i64 %v15, 1
  %v33 = icmp slt i64 %v16, 33
  br i1 %v33, label %v13, label %v14
v14:
  %v7 = add nuw nsw i64 %v6, 1
  %v34 = icmp slt i64 %v7, 5
  br i1 %v34, label %v4, label %v5
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
; # strided of a0 33, a1 20: no axis of the source is contiguous
; tile(a1, 4) · reorder(a1, a0)
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v3 = icmp eq i64 %part, 0
  br i1 %v3, label %v1, label %v2
v1:
  %v8 = icmp slt i64 0, 5
  br i1 %v8, label %v4, label %v5
v4:
  %v6 = phi i64 [ 0, %v1 ], [ %v7, %v14 ]
  %v9 = mul i64 %v6, 1600
  %v10 = getelementptr i8, ptr %src, i64 %v9
  %v11 = mul i64 %v6, 16
  %v12 = getelementptr i8, ptr %dst, i64 %v11
  %v17 = icmp slt i64 0, 33
  br i1 %v17, label %v13, label %v14
v13:
  %v15 = phi i64 [ 0, %v4 ], [ %v16, %v13 ]
  %v18 = mul i64 %v15, 12
  %v19 = getelementptr i8, ptr %v10, i64 %v18
  %v20 = mul i64 %v15, 180
  %v21 = getelementptr i8, ptr %v12, i64 %v20
  %v22 = load i32, ptr %v19, align 1
  %v23 = insertelement <4 x i32> zeroinitializer, i32 %v22, i64 0
  %v24 = getelementptr i8, ptr %v19, i64 400
  %v25 = load i32, ptr %v24, align 1
  %v26 = insertelement <4 x i32> %v23, i32 %v25, i64 1
  %v27 = getelementptr i8, ptr %v19, i64 800
  %v28 = load i32, ptr %v27, align 1
  %v29 = insertelement <4 x i32> %v26, i32 %v28, i64 2
  %v30 = getelementptr i8, ptr %v19, i64 1200
  %v31 = load i32, ptr %v30, align 1
  %v32 = insertelement <4 x i32> %v29, i32 %v31, i64 3
  store <4 x i32> %v32, ptr %v21, align 1
  %v16 = add nuw nsw i64 %v15, 1
  %v33 = icmp slt i64 %v16, 33
  br i1 %v33, label %v13, label %v14
v14:
  %v7 = add nuw nsw i64 %v6, 1
  %v34 = icmp slt i64 %v7, 5
  br i1 %v34, label %v4, label %v5
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
