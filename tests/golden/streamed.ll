; src f32 + 0, dst f32 + 0
; for 1048576: src += 16, dst += 16
;   for 16: src += 1, dst += 1
;     dst = f32(src)

; --- avx512
; # copy of a0 16777216: one axis is contiguous on both sides
; tile(a0, 64) · parallel(a0, 4096) · stream()
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v1 = mul i64 %part, 64
  %v2 = udiv i64 %v1, %parts
  %v3 = add i64 %part, 1
  %v4 = mul i64 %v3, 64
  %v5 = udiv i64 %v4, %parts
  %v10 = icmp slt i64 %v2, %v5
  br i1 %v10, label %v6, label %v7
v6:
  %v8 = phi i64 [ %v2, %entry ], [ %v9, %v18 ]
  %v11 = urem i64 %v8, 64
  %v12 = udiv i64 %v8, 64
  %v13 = mul i64 %v11, 4096
  %v14 = add i64 %v13, 4096
  %v15 = icmp slt i64 %v14, 262144
  %v16 = select i1 %v15, i64 %v14, i64 262144
  %v21 = icmp slt i64 %v13, %v16
  br i1 %v21, label %v17, label %v18
v17:
  %v19 = phi i64 [ %v13, %v6 ], [ %v20, %v17 ]
  %v22 = mul i64 %v19, 256
  %v23 = getelementptr i8, ptr %src, i64 %v22
  %v24 = mul i64 %v19, 256
  %v25 = getelementptr i8, ptr %dst, i64 %v24
  %v26 = load <16 x i32>, ptr %v23, align 1
  %v27 = getelementptr i8, ptr %v23, i64 64
  %v28 = load <16 x i32>, ptr %v27, align 1
  %v29 = getelementptr i8, ptr %v23, i64 128
  %v30 = load <16 x i32>, ptr %v29, align 1
  %v31 = getelementptr i8, ptr %v23, i64 192
  %v32 = load <16 x i32>, ptr %v31, align 1
  store <16 x i32> %v26, ptr %v25, align 64, !nontemporal !0
  %v33 = getelementptr i8, ptr %v25, i64 64
  store <16 x i32> %v28, ptr %v33, align 64, !nontemporal !0
  %v34 = getelementptr i8, ptr %v25, i64 128
  store <16 x i32> %v30, ptr %v34, align 64, !nontemporal !0
  %v35 = getelementptr i8, ptr %v25, i64 192
  store <16 x i32> %v32, ptr %v35, align 64, !nontemporal !0
  %v20 = add nuw nsw i64 %v19, 1
  %v36 = icmp slt i64 %v20, %v16
  br i1 %v36, label %v17, label %v18
v18:
  %v9 = add nuw nsw i64 %v8, 1
  %v37 = icmp slt i64 %v9, %v5
  br i1 %v37, label %v6, label %v7
v7:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
!0 = !{i32 1}

; --- avx2
; # copy of a0 16777216: one axis is contiguous on both sides
; tile(a0, 32) · parallel(a0, 8192) · stream()
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v1 = mul i64 %part, 64
  %v2 = udiv i64 %v1, %parts
  %v3 = add i64 %part, 1
  %v4 = mul i64 %v3, 64
  %v5 = udiv i64 %v4, %parts
  %v10 = icmp slt i64 %v2, %v5
  br i1 %v10, label %v6, label %v7
v6:
  %v8 = phi i64 [ %v2, %entry ], [ %v9, %v18 ]
  %v11 = urem i64 %v8, 64
  %v12 = udiv i64 %v8, 64
  %v13 = mul i64 %v11, 8192
  %v14 = add i64 %v13, 8192
  %v15 = icmp slt i64 %v14, 524288
  %v16 = select i1 %v15, i64 %v14, i64 524288
  %v21 = icmp slt i64 %v13, %v16
  br i1 %v21, label %v17, label %v18
v17:
  %v19 = phi i64 [ %v13, %v6 ], [ %v20, %v17 ]
  %v22 = mul i64 %v19, 128
  %v23 = getelementptr i8, ptr %src, i64 %v22
  %v24 = mul i64 %v19, 128
  %v25 = getelementptr i8, ptr %dst, i64 %v24
  %v26 = load <8 x i32>, ptr %v23, align 1
  %v27 = getelementptr i8, ptr %v23, i64 32
  %v28 = load <8 x i32>, ptr %v27, align 1
  %v29 = getelementptr i8, ptr %v23, i64 64
  %v30 = load <8 x i32>, ptr %v29, align 1
  %v31 = getelementptr i8, ptr %v23, i64 96
  %v32 = load <8 x i32>, ptr %v31, align 1
  store <8 x i32> %v26, ptr %v25, align 32, !nontemporal !0
  %v33 = getelementptr i8, ptr %v25, i64 32
  store <8 x i32> %v28, ptr %v33, align 32, !nontemporal !0
  %v34 = getelementptr i8, ptr %v25, i64 64
  store <8 x i32> %v30, ptr %v34, align 32, !nontemporal !0
  %v35 = getelementptr i8, ptr %v25, i64 96
  store <8 x i32> %v32, ptr %v35, align 32, !nontemporal !0
  %v20 = add nuw nsw i64 %v19, 1
  %v36 = icmp slt i64 %v20, %v16
  br i1 %v36, label %v17, label %v18
v18:
  %v9 = add nuw nsw i64 %v8, 1
  %v37 = icmp slt i64 %v9, %v5
  br i1 %v37, label %v6, label %v7
v7:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
!0 = !{i32 1}

; --- neon
; # copy of a0 16777216: one axis is contiguous on both sides
; tile(a0, 16) · parallel(a0, 16384) · stream()
define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {
entry:
  %v1 = mul i64 %part, 64
  %v2 = udiv i64 %v1, %parts
  %v3 = add i64 %part, 1
  %v4 = mul i64 %v3, 64
  %v5 = udiv i64 %v4, %parts
  %v10 = icmp slt i64 %v2, %v5
  br i1 %v10, label %v6, label %v7
v6:
  %v8 = phi i64 [ %v2, %entry ], [ %v9, %v18 ]
  %v11 = urem i64 %v8, 64
  %v12 = udiv i64 %v8, 64
  %v13 = mul i64 %v11, 16384
  %v14 = add i64 %v13, 16384
  %v15 = icmp slt i64 %v14, 1048576
  %v16 = select i1 %v15, i64 %v14, i64 1048576
  %v21 = icmp slt i64 %v13, %v16
  br i1 %v21, label %v17, label %v18
v17:
  %v19 = phi i64 [ %v13, %v6 ], [ %v20, %v17 ]
  %v22 = mul i64 %v19, 64
  %v23 = getelementptr i8, ptr %src, i64 %v22
  %v24 = mul i64 %v19, 64
  %v25 = getelementptr i8, ptr %dst, i64 %v24
  %v26 = load <4 x i32>, ptr %v23, align 1
  %v27 = getelementptr i8, ptr %v23, i64 16
  %v28 = load <4 x i32>, ptr %v27, align 1
  %v29 = getelementptr i8, ptr %v23, i64 32
  %v30 = load <4 x i32>, ptr %v29, align 1
  %v31 = getelementptr i8, ptr %v23, i64 48
  %v32 = load <4 x i32>, ptr %v31, align 1
  store <4 x i32> %v26, ptr %v25, align 16, !nontemporal !0
  %v33 = getelementptr i8, ptr %v25, i64 16
  store <4 x i32> %v28, ptr %v33, align 16, !nontemporal !0
  %v34 = getelementptr i8, ptr %v25, i64 32
  store <4 x i32> %v30, ptr %v34, align 16, !nontemporal !0
  %v35 = getelementptr i8, ptr %v25, i64 48
  store <4 x i32> %v32, ptr %v35, align 16, !nontemporal !0
  %v20 = add nuw nsw i64 %v19, 1
  %v36 = icmp slt i64 %v20, %v16
  br i1 %v36, label %v17, label %v18
v18:
  %v9 = add nuw nsw i64 %v8, 1
  %v37 = icmp slt i64 %v9, %v5
  br i1 %v37, label %v6, label %v7
v7:
  ret void
}
define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}
!0 = !{i32 1}
