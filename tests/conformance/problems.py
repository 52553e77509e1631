"""Problems of every operation, in the words of the driver: a comma between values stands for each of them.

A line gives one case for each combination of its values; of these every change runs so many that each pair
of values is in one of them. Formats are plain, permuted, in blocks with and without padding, and strides
with gaps; extents are small, and fill no vector.

Reorders and shuffles have no formula in the driver: they have the bits of the interpreter, which is held
against `MemoryDesc.offset` in tests/ops.
"""

from __future__ import annotations

_ALL_FLOATS = "f32,bf16,f16,f64"
_TYPES = "f32,bf16,f16,f64,s8,u8,s32,f8_e5m2,f8_e4m3"
_FORMATS = "abx,axb,aBx16b"
# Whole vectors of padding, two blocked dims, blocks of a dim that is not the channels.
_MORE_FORMATS = f"{_FORMATS},aBx32b,ABx16b16a,aBx8b"
_FUNCTIONS = (
    "abs,clip,clip_v2,elu,exp,gelu_erf,gelu_tanh,hardsigmoid,hardswish,linear,log,logistic,mish,pow,relu,"
    "round,soft_relu,sqrt,square,swish,tanh"
)
_GRADIENTS = (
    "abs,clip,clip_v2,elu,exp,gelu_erf,gelu_tanh,hardsigmoid,hardswish,linear,log,logistic,mish,pow,relu,"
    "soft_relu,sqrt,square,swish,tanh,clip_v2_dst,elu_dst,exp_dst,logistic_dst,relu_dst,sqrt_dst,tanh_dst"
)
# Each sum of a chain sees the old destination.
_SUMS = "sum:2+relu_dst:0.25+sum:-0.5"
_SUMS_OF_INTEGERS = "sum:2:3+relu_dst:0.25+sum:-0.5:-2"
_SUMS_OF_OTHER_BYTES = "sum:2:-7:u8+relu_dst:0.25+sum:-0.5:100:u8"
_PAIRS = (
    f"add:f32:per_oc+linear:0.5:-1,mul:f32:per_tensor,sum:0.5+relu:0.5,{_SUMS},prelu:per_oc+max:f32:common"
)
_WITHOUT_SUM = "add:f32:per_oc+linear:0.5:-1,mul:f32:per_tensor,prelu:per_oc+max:f32:common"
_ZERO_POINTS = (
    "src:common:2,src:per_dim_1+dst:common:1,wei:common:2,wei:per_oc,src:common:7+wei:per_oc,"
    "src:common:7+dst:common:5"
)
_GROUPS = "src:per_ocic:f32:1x32+wei:per_ocic:f32:32x1,src:per_ocic:f16:1x16+wei:per_ocic:f16:64x1"
_BINARY = "ADD,SUB,MUL,DIV,MIN,MAX,GE,GT,LE,LT,EQ,NE,SELECT"


def _types(count: int, kind: str = "f32") -> str:
    return ":".join([kind] * count)


_POOL_WINDOWS = (
    "mb2ic5_iw13kw3sw2pw1 mb2ic17_ih7iw6kh3kw2sh2sw1ph1pw0 mb1ic3_ih9iw8kh2kw3sh1sw2dh2dw1ph0pw1 "
    "mb1ic4_id5ih4iw3kd2kh2kw3sd1sh2sw1pd0ph0pw1 mb2ic3_ih4iw5kh4kw5 "
    "mb1ic3_ih9iw37oh5ow19kh3kw3sh2sw2ph1pw1 mb1ic3_ih9iw11kh2kw2sh3sw4ph0pw1 "
    "mb1ic3_ih13iw12kh3kw2dh1dw3sh4sw2ph2pw1 mb2ic3_ih8iw6oh4ow3kh3kw3sh2sw2ph1pw1 "
    "mb1ic3_ih5iw7kh3kw3ph1pw1 mb1ic1_ih66iw64kh2kw3sh1sw2ph1pw1 mb1ic3_ih17iw14kh3kw7sh5sw6ph1pw0 "
    "mb1ic2_id5ih7iw7od3oh4ow4kd3kh3kw3sd2sh2sw2pd1ph1pw1 mb1ic2_iw300kw299 "
    "mb1ic3_ih10iw10oh4ow4kh3kw3sh2sw2ph0pw0 mb2ic5_iw6kw2sw2 mb0ic17_ih7kh3"
)
_SIZES = "mb2ic5_iw17ow21 mb2ic17_ih7oh6_iw14ow12 mb1ic9_id3od2_ih8oh5_iw7ow12 mb2ic3_iw5ow1"
_ROWS = "mb1ic16_ih5oh10_iw16ow32 mb1ic12_ih9oh9_iw17ow68 mb2ic32_iw9ow18"
_CONVOLUTIONS = (
    "ic3oc17_iw8ow4kw3pw1sw2 mb1g2ic4oc6_ih7kh3sh2dh1 mb1ic5oc3_id4kd2pd1 ic4oc5_ih6kh3ph1 "
    "mb1g6ic6oc6_ih9iw8kh3kw2sh2sw1ph1pw0 mb1ic16oc33_ih5kh1"
)
_PRODUCTS = "5x16:16x6 9x20:20x5 3x7x16:1x16x8 2x2x3x5:2x1x5x33"

PROBLEMS: dict[str, str] = {
    # --- moves ---
    "reorder": (
        f"--reorder --sdt={_TYPES} --ddt={_TYPES} --stag={_MORE_FORMATS} --dtag={_MORE_FORMATS} 2x17x3x5"
    ),
    "reorder of 4-bit elements": (
        "--reorder --sdt=f32,s4,u4,s8 --ddt=f32,s4,u4,s8 --stag=ab,ba,Ab8a --dtag=ab,ba,AB8b4a 18x21"
    ),
    "reorder of blocks that do not nest": (
        "--reorder --sdt=f32,u8,s4 --ddt=f32,s8,s4 --stag=Ab32a,Ab12a,ab --dtag=Ab48a,BA10a8b,ab 96x6 53x36"
    ),
    "reorder with attributes": (
        "--reorder --sdt=f32,s8,u8,bf16 --ddt=s8,f32,u8 --stag=abx,axb --dtag=axb,aBx16b "
        "--attr-scales=,src:common:0.25+dst:per_dim_1,src:per_dim_01 "
        "--attr-post-ops=,sum:0.5,relu:0.5+mul:f32:per_oc 2x17x3x5"
    ),
    "reorder with zero points": (
        "--reorder --sdt=s8,u8 --ddt=s8,u8,s32 --stag=abx,aBx16b --dtag=axb,aBx16b "
        "--attr-zero-points=src:common:2+dst:per_dim_1,src:per_dim_1+dst:common:-3 2x17x3x5"
    ),
    "reorder between strides": (
        "--reorder --sdt=f32,u8 --ddt=f32,s8,bf16 "
        "--strides=300x16x2:180x1x19,160x8x1:160x8x1,1x15x2:300x16x1 2x17x7"
    ),
    "reorder with compensation": (
        "--reorder --sdt=f32,s8 --ddt=s8 --dtag=ABcd4b16a4b,Abcd16a,abcd "
        "--oflag=s8s8_comp:1,zp_comp:1,s8s8_comp:1+zp_comp:1 17x5x3x2"
    ),
    "reorder of all ranks": (
        "--reorder --stag=abx,axb --dtag=abx,axb,aBx8b --ddt=f32,u8 1x1 33x70 3x5x70 0x3x4 1x3x2x5x4x3"
    ),
    "shuffle": (
        "--shuffle --dir=FWD_D,FWD_I,BWD_D --dt=f32,bf16,u8,f64 --tag=abx,axb,aBx16b,aBx4b --axis=1 "
        "--group=2,4,6 2x12x5x3"
    ),
    "shuffle along an axis": (
        "--shuffle --dir=FWD_D,BWD_D --axis=0,2,3 --group=2,4 --dt=u8,f32 --tag=abx,axb,aBx16b 4x17x8x12"
    ),
    "shuffle of types": (
        "--shuffle --dir=FWD_D,BWD_D --dt=f32,f16,bf16,s32,s8,boolean,f8_e5m2,f8_e4m3,e8m0,s4,u4,f4_e2m1 "
        "--tag=abx,axb,aBx16b,aBx8b --axis=1 --group=4 2x36x7x5 2x24x1x3"
    ),
    "shuffle in stages": (
        "--shuffle --dir=FWD_D,BWD_D --dt=f32,u8,s4 --tag=abx,axb,aBx16b,aBx8b,aBx4b --axis=1 --group=4,9,12 "
        "2x36x17x19"
    ),
    "shuffle of two blocked axes, of long ones, of none": (
        "--shuffle --dir=FWD_D,BWD_D --dt=f32,u8 --tag=BAc8b4a2b,ABc16b16a --axis=0,1 --group=6,4 48x48x3 "
        "--tag=A8a,a --axis=0 --group=5 30 --tag=abc --axis=1 --group=4 0x12x3 2x12x0"
    ),
    "concat": (
        "--concat --sdt=f32,s8,bf16 --ddt=f32,u8,s8,f16 --stag=abx,axb,aBx16b --dtag=abx,axb,aBx8b,any "
        "--axis=1 --attr-scales=,msrc0:common:1.5+msrc1:common:0.5 2x16x5:2x17x5"
    ),
    "concat along an axis": "--concat --stag=abx,axb --axis=0,2 --dtag=undef,aBx16b 2x17x4:2x17x4:2x17x4",
    "concat of other tags": (
        "--concat --stag=abx:axb:aBx16b,aBx8b:aBx16b:abx --dtag=any,axb --sdt=bf16,f32 --ddt=f32 "
        "2x16x4:2x16x4:2x5x4"
    ),
    "concat of blocks out of step": (
        "--concat --stag=aBx8b,aBx16b,aBx16b:abx:aBx8b --dtag=aBx16b,aBx8b --sdt=f32,bf16 --ddt=s8,bf16 "
        "3x5x7:3x40x7:3x3x7"
    ),
    "concat of 4-bit elements": (
        "--concat --sdt=s4,u4 --ddt=s4 --axis=0,2 --stag=abc,acb --dtag=abc,cab 3x5x8:3x5x8"
    ),
    "concat of one, of large blocks, of much": (
        "--concat --stag=Ab48a,ab --sdt=bf16,f32 --ddt=bf16,s8 --dtag=Ab32a,ba --axis=0 5x3:200x3:40x3 17x5 "
        "400x99:801x99:7x99"
    ),
    "concat of blocks of every dim": (
        "--concat --dtag=FEDCBA2f2e2d2c2b2a --sdt=f32,s8 --ddt=f32 --axis=0 3x3x3x3x3x3:3x3x3x3x3x3"
    ),
    "concat without elements": (
        "--concat --stag=abx,aBx8b --axis=1 --dtag=any,abx 2x0x3:2x5x3 2x0x3:2x0x3 0x4x3:0x5x3"
    ),
    "sum of many": (
        f"--sum --sdt={_types(19)},f32:u8:f32:f64:u8:s8:s32{':f32' * 12} --ddt=f32,s8 --stag=ab,ba "
        "--dtag=ab,ba --scales=1 3x67"
    ),
    "sum of one, of a pass, of several passes": (
        f"--sum --sdt=bf16,{_types(16, 's8')},{_types(17)},{_types(33, 'f64')} --ddt=f32,s8,s4 "
        "--stag=abc,aBc16b,acb --dtag=aBc16b,abc --scales=0.5 2x21x5"
    ),
    "sum of 4-bit elements": (
        "--sum --sdt=s4:u4:f32,f4_e2m1:f4_e3m0:s4 --ddt=s4,f32 --stag=ab:ba:ab,ab --dtag=ab,ba "
        "--scales=1:1:1 3x7 33x18"
    ),
    "sum of 4-bit elements in other orders": (
        "--sum --sdt=nf4:s4:nf4,f4_e2m1:s4:u4,f4_e2m1:f4_e3m0:f4_e3m0 --ddt=s8,f32 --stag=bcad:abcd:cdba "
        "--dtag=dbac,abcd --scales=1:2:0.5 5x4x1x5"
    ),
    "sum of much and of nothing": (
        "--sum --sdt=f32:f32:f32 --ddt=f32,bf16 --dtag=ab,aB16b --scales=1:0.5:0.25 700x999 0x3"
    ),
    "sum of integers": "--sum --sdt=s32:u8:s32,s8:s8:s8 --ddt=s32,s8,f64 --scales=1:1:1,0.5:1:2 517 3x67",
    "sum": (
        "--sum --sdt=f32:f32:f32,f32:u8:s8,bf16:bf16:f16 --ddt=f32,s8,bf16 --stag=abx,axb,abx:axb:aBx16b "
        "--dtag=axb,aBx16b,undef --scales=1,0.25:2:0.5 2x17x5"
    ),
    "sum in place": (
        "--sum --sdt=bf16:bf16,f32:f32 --ddt=bf16,f32 --scales=0.25:2,1:1 --inplace=true 3x17x5x7"
    ),
    # --- functions of each element ---
    "eltwise": (
        f"--eltwise --alg={_FUNCTIONS} --alpha=0.5 --beta=1.5 --dt=f32,bf16,f64 --tag={_FORMATS} 2x17x5x3"
    ),
    "eltwise of types": (
        f"--eltwise --alg=linear,relu,clip --alpha=-2 --beta=3 --dt={_TYPES} --tag={_MORE_FORMATS} 2x17x5x3"
    ),
    "eltwise with post-ops": (
        "--eltwise --alg=tanh,square --dt=f32,bf16,s8 --tag=axb,aBx16b --inplace=true,false "
        f"--attr-post-ops={_PAIRS} 2x17x5x3"
    ),
    "eltwise gradient": (
        f"--eltwise --dir=BWD_D --alg={_GRADIENTS} --alpha=0.5 --beta=1.5 --dt=f32,bf16,f64 "
        f"--tag={_FORMATS} 2x17x5x3"
    ),
    "eltwise gradient in place": (
        "--eltwise --dir=BWD_D --alg=tanh_dst,relu_dst,exp_dst --dt=f32,f16 --tag=axb,aBx16b "
        "--inplace=true 2x17x5x3"
    ),
    "eltwise of nothing": "--eltwise --alg=exp --dir=FWD_I,BWD_D 0x3 2x0x4 1",
    "binary": (
        f"--binary --alg={_BINARY} --sdt=f32:f32,s8:f32,bf16:u8,s32:s32 --ddt=f32,s8,bf16,u8 "
        "--stag=abx:any,axb:abx,aBx16b:any --dtag=any,abx 2x17x5:2x17x5 2x17x5:1x17x1 1x17x5:2x1x5"
    ),
    "binary with attributes": (
        "--binary --alg=ADD,MUL --ddt=f32,s8 --attr-scales=,src:common:0.5+src1:common:0.25,src1:per_dim_1 "
        f"--attr-post-ops={_PAIRS} 5x3x2x9:5x3x2x9 5x3x2x9:1x3x1x1"
    ),
    "binary in place": (
        "--binary --alg=SUB,DIV --inplace=true --stag=abx:axb,axb:any --attr-post-ops=,linear:2:0.125 "
        "12x13x3:12x13x3 12x13x3:1x13x1"
    ),
    "binary of strides": (
        "--binary --alg=SUB --strides=30x10x1::40x10x1,30x1x6:9x3x1:60x2x12 --ddt=f32,s8 2x3x4:1x3x1"
    ),
    "prelu": (
        "--prelu --dir=FWD_D,FWD_I --sdt=f32:f32,bf16:bf16,u8:bf16,s8:f32 "
        "--stag=abx:any,axb:any,aBx16b:abx 3x17x8:1x17x1 3x17x8:3x17x8 3x17x8:1x1x1 3x17x8:3x1x8"
    ),
    "prelu gradient": (
        "--prelu --dir=BWD_DW --sdt=f32:f32,bf16:bf16,f16:f32 --stag=abx:any,axb:axb,aBx16b:abx "
        "3x17x8:1x17x1 3x17x8:3x17x8 3x17x8:1x1x1 2x7x5x3:2x1x5x3 0x3x2:1x3x1"
    ),
    # --- folds of windows ---
    "pooling": f"--pool --dir=FWD_D --alg=max,avg_np,avg_p --tag={_FORMATS} {_POOL_WINDOWS}",
    "pooling of types": (
        f"--pool --dir=FWD_D,FWD_I --alg=max,avg_np,avg_p --dt={_TYPES} --tag={_MORE_FORMATS} "
        "mb2ic17_ih7iw6kh3kw2sh2sw1ph1pw0"
    ),
    "pooling to another type": (
        "--pool --dir=FWD_I --alg=max,avg_p --dt=s8:f32,f32:bf16,u8:s32 --tag=abx,axb "
        "mb2ic17_ih7iw6kh3kw2sh2sw1ph1pw0"
    ),
    "pooling with post-ops": (
        f"--pool --dir=FWD_I --alg=max,avg_np --dt=f32,s8 --tag=axb,aBx16b --attr-post-ops={_WITHOUT_SUM} "
        "mb2ic17_ih7iw6kh3kw2sh2sw1ph1pw0"
    ),
    "pooling gradient": (
        f"--pool --dir=BWD_D --alg=max,avg_np,avg_p --tag={_MORE_FORMATS},aBCx8b4c {_POOL_WINDOWS}"
    ),
    "pooling gradient of types": (
        f"--pool --dir=BWD_D --alg=max,avg_p --dt={_ALL_FLOATS},s32,s8 --tag={_MORE_FORMATS} "
        "mb1ic5_iw10kw4sw2pw1 mb2ic3_ih8iw6oh4ow3kh3kw3sh2sw2ph1pw1"
    ),
    "lrn": (
        f"--lrn --dir=FWD_D,FWD_I --alg=ACROSS,WITHIN --dt={_ALL_FLOATS} --tag={_FORMATS} ic17_ih5_ls4 "
        "ic17_ih5_ls5alpha0.5beta0.75k2 mb2ic5_ih6iw7_ls3 ic5_iw4_ls7beta1k14.25 ic3_id2ih3iw4_ls1beta0.5"
    ),
    "lrn gradient": (
        f"--lrn --dir=BWD_D --alg=ACROSS,WITHIN --dt=f32,bf16,f16,f64 --tag={_FORMATS} ic17_ih5_ls4 "
        "ic17_ih5_ls5alpha0.5beta0.75k2 mb2ic5_ih6iw7_ls3 ic5_iw4_ls7beta1k14.25 ic3_id2ih3iw4_ls1beta0.5"
    ),
    "resampling": (
        f"--resampling --alg=nearest,linear --sdt=f32,bf16,s8 --ddt=f32,u8,f16 --tag={_FORMATS} {_SIZES} "
        f"{_ROWS}"
    ),
    "resampling with post-ops": (
        f"--resampling --dir=FWD_I --alg=nearest,linear --tag=axb,abx --attr-post-ops={_PAIRS} "
        "mb2ic17_ih7oh6_iw14ow12"
    ),
    "resampling gradient": (
        f"--resampling --dir=BWD_D --alg=nearest,linear --sdt=f32,bf16 --ddt=f32,bf16 --tag={_FORMATS} "
        f"{_SIZES} {_ROWS}"
    ),
    # --- folds along axes ---
    "softmax": (
        f"--softmax --dir=FWD_D,FWD_I --alg=SOFTMAX,LOGSOFTMAX --sdt={_ALL_FLOATS} --ddt=f32,bf16 "
        f"--stag={_FORMATS} --dtag=any,axb --axis=0,1,2,3 2x19x5x3"
    ),
    "softmax of bytes": (
        "--softmax --dir=FWD_I --sdt=s8,u8,bf16 --ddt=u8,s8,f32 "
        "--attr-scales=src:common:64+dst:common:0.5,dst:common:0.125 --axis=1 --stag=abx,axb 255x10"
    ),
    "softmax of long rows": (
        "--softmax --dir=FWD_I --alg=SOFTMAX,LOGSOFTMAX --axis=0,1 --stag=ab,ba "
        "--attr-post-ops=,mul:f32:per_oc 130x67 3x1025"
    ),
    "softmax in place": (
        "--softmax --alg=SOFTMAX,LOGSOFTMAX --inplace=true --axis=1,2 --stag=axb,aBx16b 2x19x5x3"
    ),
    "softmax gradient": (
        f"--softmax --dir=BWD_D --alg=SOFTMAX,LOGSOFTMAX --sdt=f32,bf16 --ddt=f32,f16 --stag={_FORMATS} "
        "--axis=0,1,2,3 --inplace=false 2x19x5x3"
    ),
    "softmax gradient in place": (
        "--softmax --dir=BWD_D --alg=SOFTMAX,LOGSOFTMAX --inplace=true --axis=1,2 --stag=axb,abx 2x19x5x3"
    ),
    "reduction": (
        "--reduction "
        "--alg=max,min,sum,mul,mean,norm_lp_max,norm_lp_sum,norm_lp_power_p_max,norm_lp_power_p_sum --p=2 "
        f"--eps=0.5 --sdt=f32,bf16,f16 --ddt=f32 --stag={_FORMATS} --dtag=any,abx 5x17x2x9:1x17x2x9 "
        "5x17x2x9:5x1x2x9 5x17x2x9:5x17x2x1 5x17x2x9:1x1x1x1"
    ),
    "norms": (
        "--reduction --alg=norm_lp_max,norm_lp_sum,norm_lp_power_p_max,norm_lp_power_p_sum --p=1,2,3 "
        "--eps=0,0.5 --stag=axb,abx 5x17x2x9:1x17x1x9"
    ),
    "reduction of bytes": (
        "--reduction --alg=max,min,sum,mean --sdt=s8,u8,s32 --ddt=s32,f32,s8 --stag=abx,axb,aBx8b "
        "4x17x2x3:1x17x1x1 4x17x2x3:4x17x1x1"
    ),
    "reduction with post-ops": (
        f"--reduction --alg=sum,max --ddt=f32,s32 --stag=axb,abx --attr-post-ops={_PAIRS} 32x17x2x3:1x17x1x1"
    ),
    "reduction of much": (
        "--reduction --alg=sum,max,mean --stag=abx,axb 3x70x300:1x70x1 2x4x5000:2x4x1 3000x5:1x5"
    ),
    # --- normalizations ---
    "batch normalization": (
        f"--bnorm --dir=FWD_D,FWD_I --flags=,CH,G,GCHR,CHA,R --dt=f32,bf16,f16 --tag={_FORMATS} mb2ic17ih5 "
        "mb3ic5iw9 ic4id2ih3iw2"
    ),
    "batch normalization of bytes": "--bnorm --dir=FWD_I --flags=GCH,GR --dt=s8 --tag=axb,abx mb2ic17ih5",
    "batch normalization in place": (
        "--bnorm --dir=FWD_I --inplace=true --flags=GCH,CH --tag=axb,aBx16b --attr-post-ops=,relu:0.5 "
        "mb2ic17ih5"
    ),
    "batch normalization gradient": (
        f"--bnorm --dir=BWD_D,BWD_DW --flags=,CH,G,GCHR,CHA,R --dt=f32,bf16,f16 --tag={_FORMATS} mb2ic17ih5 "
        "mb3ic5iw9"
    ),
    "layer normalization": (
        "--lnorm --dir=FWD_D,FWD_I --flags=,CH,G,GCH,CM --dt=f32,bf16,f16,f32:s8 --tag=abx,axb "
        "--stat_tag=abx,axb --ss_dt=f32,bf16 4x3x17 3x70 2x3x5x33"
    ),
    "layer normalization with attributes": (
        f"--lnorm --dir=FWD_I --inplace=true,false --flags=CH --dt=f32,bf16 --attr-post-ops={_PAIRS} 6x3x30"
    ),
    "layer normalization gradient": (
        "--lnorm --dir=BWD_D,BWD_DW --flags=,CH,G,GCH,CM --dt=f32,bf16 --tag=abx,axb --stat_tag=abx,axb "
        "4x3x17 3x70 2x3x5x33 6x40x512"
    ),
    "layer normalization gradient of rows in pieces": (
        "--lnorm --dir=BWD_DW --flags=CH,GH,CM --inplace=true,false --tag=abc,bac 6x40x512 2x64x600 "
        "--tag=ba 40x20"
    ),
    "group normalization": (
        f"--gnorm --dir=FWD_D,FWD_I --flags=,CH,GCH,CM --dt=f32,bf16,f16 --tag={_FORMATS} mb2g3ic12ih5 "
        "g1ic5iw9 g4ic32ih3"
    ),
    "group normalization gradient": (
        f"--gnorm --dir=BWD_D,BWD_DW --flags=,CH,GCH,CM --dt=f32,bf16 --tag={_FORMATS} mb2g3ic12ih5 "
        "g1ic5iw9 g4ic32ih3"
    ),
    # --- several sums ---
    "sums of eltwise": (
        f"--eltwise --alg=abs --dt=s8,u8,s32 --tag=abx,aBx16b --attr-post-ops={_SUMS_OF_INTEGERS} 2x20x5x6"
    ),
    "sums of bytes that are read as others": (
        f"--eltwise --alg=abs --dt=s8 --tag=abx,aBx16b --attr-post-ops={_SUMS_OF_OTHER_BYTES} 2x20x5x6"
    ),
    "sums of binary": (
        f"--binary --ddt=s8,s32,u8 --stag=axb:any,abx:any --attr-post-ops={_SUMS_OF_INTEGERS} "
        "2x20x5x6:2x20x5x6"
    ),
    "sums of reorder": (
        f"--reorder --sdt=f32,bf16 --ddt=f32,f64,bf16 --dtag=abx,aBx16b --attr-post-ops={_SUMS} 2x20x5x6"
    ),
    "sums of reorder to integers": (
        f"--reorder --ddt=s8,s32,u8,s4 --dtag=abx,aBx16b --attr-post-ops={_SUMS_OF_INTEGERS} 2x20x5x6"
    ),
    "sums of matmul": (
        f"--matmul --dt=u8:s8:s8,u8:s8:s32,u8:s8:u8 --attr-post-ops={_SUMS_OF_INTEGERS} 5x16:16x6"
    ),
    "sums of convolution": (
        f"--conv --dir=FWD_I --dt=u8:s8:s8,u8:s8:u8 --dtag=any,axb --attr-post-ops={_SUMS_OF_INTEGERS} "
        "ic5oc17_ih7kh3ph1"
    ),
    "sums of softmax": (
        f"--softmax --dir=FWD_I --ddt=f32,bf16 --stag=axb,abx --attr-post-ops={_SUMS} 2x19x5x3"
    ),
    "sums of batch normalization": (
        f"--bnorm --dir=FWD_I --dt=f32,bf16 --tag=axb,abx --attr-post-ops={_SUMS} mb2ic17ih5"
    ),
    "sums of group normalization": (
        f"--gnorm --dir=FWD_I --dt=f32,bf16 --tag=axb,abx --attr-post-ops={_SUMS} mb2g3ic12ih5"
    ),
    # --- products ---
    "convolution": (
        "--conv --dir=FWD_B,FWD_I --dt=f32,bf16,f16,f64 --stag=any,axb,aBx16b --wtag=any,abx "
        f"--dtag=any,axb,aBx8b {_CONVOLUTIONS}"
    ),
    "convolution of bytes": (
        "--conv --dir=FWD_I --dt=u8:s8:f32,s8:s8:s8,u8:s8:s32 --bia-dt=undef,f32,s8 --stag=any,axb,aBx16b "
        "--wtag=any,abx --attr-scales=,src:common:0.25+wei:per_oc,wei:common:0.5+dst:common:2 "
        "g2ic4oc6_ih7kh3sh2dh1 mb1ic16oc33_ih5kh1 ic3oc17_iw8kw3pw1sw2"
    ),
    "convolution with zero points": (
        f"--conv --dir=FWD_I --dt=u8:s8:s32,s8:s8:u8 --stag=any,axb --attr-zero-points={_ZERO_POINTS} "
        "g2ic6oc4ih8kh3ph1sh2 ic5oc17_iw9kw3pw1 mb1g20ic20oc20_ih9iw11kh3kw3ph1pw1 "
        "mb1g2ic12oc40_ih9iw11kh3kw3ph2pw2dh1dw1"
    ),
    "deconvolution with zero points": (
        "--deconv --dir=FWD_I --dt=u8:s8:s32 --stag=any,axb --attr-zero-points=src:common:3 "
        "mb1oc8ic20_ih5iw6kh3kw3sh2sw2ph1pw1"
    ),
    "convolution of two": (
        "--conv --dir=FWD_I --dt=f32,bf16 --stag=any,axb --dtag=any,axb "
        "--attr-post-ops=relu+dw:k3s1p1:f32+linear:0.5:1+prelu:per_oc,dw:k3s2p1:f32+relu,dw:k5s1p2:f32 "
        "mb2ic24oc40_ih7iw9kh1kw1 ic5oc6_ih8iw5kh1kw1 ic3oc16_ih6kh3ph1"
    ),
    "convolution of two, of bytes": (
        "--conv --dir=FWD_I --dt=u8:s8:u8 --stag=any,axb "
        "--attr-scales=src:common:0.25+dst:common:2+attr_post_op_dw_wei:per_oc,src:common:0.5 "
        "--attr-zero-points=dst:common:3, "
        "--attr-post-ops=relu+dw:k3s1p1:s8,dw:k3s2p1:s8+linear:0.5:1,dw:k5s1p2:s8 mb2ic24oc40_ih7iw9kh1kw1 "
        "g2ic4oc6_ih5kh1"
    ),
    "convolution of f8": (
        "--conv --dir=FWD_I --dt=f8_e4m3:f8_e5m2:f8_e4m3,f8_e5m2:f8_e4m3:f32 ic3oc17_iw5kw3pw1"
    ),
    "convolution with post-ops": (
        f"--conv --dir=FWD_I --dt=f32,bf16,u8:s8:f32 --dtag=any,axb --attr-post-ops={_PAIRS} ic5oc17_ih7kh1"
    ),
    "convolution of strides": (
        "--conv --dir=FWD_D,BWD_D,BWD_WB --strides=80x20x2::96x12x1,80x20x2:: --dt=f32,bf16 "
        "mb2ic4oc8_iw10ow8kw3"
    ),
    "convolution gradients": (
        "--conv --dir=BWD_D,BWD_W,BWD_WB --dt=f32,bf16,f16,f64 --stag=any,axb,abx --wtag=any,abx "
        f"--dtag=any,axb {_CONVOLUTIONS}"
    ),
    "convolution of other windows": (
        "--conv --dir=FWD_B,BWD_D,BWD_WB --stag=any,axb,abx --dtag=any,axb,abx "
        "mb2ic20oc24_ih6iw7kh3kw3ph1pw1 mb2g20ic20oc20_ih6iw7kh3kw3sh1sw2ph1pw1 mb1g2ic32oc32_ih5kh1 "
        "mb1g3ic15oc6_iw7kw3sw2dw1pw2 mb1ic8oc16_id3ih4iw5kd2kh2kw2sd1sh2sw1pd0ph0pw1 "
        "mb1ic16oc16_ih5kh3ph1 mb2ic64oc64_ih9iw11kh3kw3sh2ph1pw1 mb0ic20oc24_ih6kh3ph1"
    ),
    "convolution of much": "--conv --dir=FWD_I,BWD_W mb3ic32oc48_ih20kh3ph1",
    "deconvolution": (
        "--deconv --dir=FWD_B,FWD_I --dt=f32,bf16,u8:s8:f32 --stag=any,axb --wtag=any,abx "
        "--dtag=any,axb,aBx16b g2oc6ic4_oh9ih5kh3sh2ph1 mb1oc5ic17_iw5kw3sw2 oc3ic4_id3kd2pd0"
    ),
    "deconvolution with attributes": (
        f"--deconv --dir=FWD_I --attr-scales=,wei:per_oc+dst:common:2 --attr-post-ops={_PAIRS} "
        "g2oc6ic4_oh9ih5kh3sh2ph1"
    ),
    "deconvolution gradients": (
        "--deconv --dir=BWD_D,BWD_W,BWD_WB --dt=f32,bf16,f64 --stag=any,axb --wtag=any,abx --dtag=any,axb "
        "g2oc6ic4_oh9ih5kh3sh2ph1 mb1oc5ic17_iw5kw3sw2 oc3ic4_id3kd2pd0"
    ),
    "inner product": (
        "--ip --dir=FWD_B,FWD_I --dt=f32,bf16,f64,u8:s8:f32,s8:s8:s8 --stag=any,abx,axb --wtag=any,abx "
        "--dtag=any,ab,ba mb3ic7ih5oc9 mb4ic17oc33 mb1ic16ih2oc5"
    ),
    "inner product with attributes": (
        "--ip --dir=FWD_I --dt=f32,s8:s8:f32 --attr-scales=,wei:per_oc+dst:common:0.25 "
        f"--attr-post-ops={_PAIRS} mb3ic7ih5oc9"
    ),
    "inner product with zero points": (
        "--ip --dir=FWD_I --dt=u8:s8:s32,s8:s8:f32 --stag=any,abx --wtag=any,abx "
        "--attr-zero-points=src:common:3,wei:common:-2,src:common:3+wei:per_oc mb3ic7ih5oc9"
    ),
    "inner product gradients": (
        "--ip --dir=BWD_D,BWD_W,BWD_WB --dt=f32,bf16,f64 --stag=any,abx,axb --wtag=any,abx "
        "--dtag=any,ab,ba mb3ic7ih5oc9 mb4ic17oc33"
    ),
    "matmul": (
        "--matmul --dt=f32,bf16,f16,f64,s8:s8:s32,u8:s8:f32 --bia-dt=undef,f32 --bia-mask=2 --stag=any,abx "
        f"--wtag=any,abx --dtag=any,abx {_PRODUCTS}"
    ),
    "matmul of transposed": (
        "--matmul --dt=f32,bf16,u8:s8:s8 --stag=ab,ba --wtag=ab,ba,BA16a16b --dtag=ab,ba,aB16b "
        "--bia-dt=f32,undef --bia-mask=1,3 10x30:30x20 1x17:17x65"
    ),
    "matmul with attributes": (
        "--matmul --dt=f32,bf16,s8:s8:f32 --attr-scales=,src:common:0.25+wei:per_oc "
        f"--attr-post-ops={_PAIRS} 6x7:7x17 3x6x7:3x7x17"
    ),
    "matmul with zero points": (
        "--matmul --dt=s8:s8:f32,u8:s8:u8,s8:s8:s32 "
        "--stag=any,ab --wtag=any,ab,ba "
        "--attr-zero-points=src:common:1+wei:common:-1,src:common:100+wei:per_oc,wei:per_oc:s32 5x16:16x6 "
        "40x39:39x33 1x1:1x17"
    ),
    "matmul of batches with zero points": (
        "--matmul --dt=s8:s8:f32,u8:s8:u8 --attr-zero-points=src:per_dim_1+dst:common:2,wei:common:-1 "
        "2x5x16:2x16x9"
    ),
    "matmul of packed weights": (
        "--matmul --dt=bf16:u4:f32,f32:s8:f32,f16:s4:f16 --wtag=any,ab,ba "
        "--attr-fpmath=bf16:true,strict:true "
        "--attr-scales=wei:per_ocic:f16:16x1,wei:per_oc,wei:per_ocic:f32:64x1 "
        "--attr-zero-points=,wei:per_ocic:s8:16x1,wei:per_ocic:u4:32x1,wei:common:3 5x64:64x6"
    ),
    "matmul of bytes by 4 bits": (
        "--matmul --dt=s8:s4:s32,u8:u4:f32 --stag=any,ab,ba --wtag=any,ab,ba 5x64:64x20"
    ),
    "matmul of 4-bit floats": (
        "--matmul --dt=f4_e2m1:f4_e3m0:f4_e2m1,f4_e2m1:f4_e2m1:f32,f32:f32:s4,f32:nf4:f32 --wtag=any,ab,ba "
        "--stag=ab,ba 24x32:32x16"
    ),
    "matmul of groups": (
        f"--matmul --dt=s8:s4:f16,s8:s8:f32,u8:s4:f32 --wtag=ba,ab,any --attr-scales={_GROUPS} "
        "--attr-zero-points=,wei:per_ocic:s8:32x1,src:per_ocic:u8:1x32 4x64:64x20"
    ),
    "matmul of runtime dims": (
        "--matmul --runtime-dims-masks=1:0,3:3,2:2 --stag=ab --wtag=ab,ba --dtag=ab --bia-dt=undef,f32 "
        "9x20:20x5"
    ),
    "matmul of strides": (
        "--matmul --strides=8x4x1:24x6x1:21x7x1,30x1x3:30x1x5:40x1x4 --dt=f32,bf16 3x2x4:3x4x6"
    ),
    # --- attention ---
    "sdpa": (
        "--sdpa --dt=f32,bf16,f16:f32:bf16:f32,f64 --qtag=abx,acbd --ktag=abx,abdc,adbc --vtag=abx,acbd "
        "--dtag=abx,acbd --mask_type=none,buffer,buffer_1d,buffer_2d,causal_top_left,causal_bottom_right "
        "--mdt=f32,bf16 --scale_type=library,mul,div 2x4x9x24:2x2x24x33:2x2x33x17 "
        "1x2x1x16:1x2x16x40:1x2x40x16 1x3x40x8:1x1x8x35:1x1x35x8"
    ),
    # --- recurrent networks ---
    "rnn": (
        "--rnn --prop=FWD_I,FWD_D --alg=VANILLA_RNN,VANILLA_LSTM,VANILLA_GRU,LBR_GRU --activation=UNDEF "
        "--cfg=f32,bf16,f16f32 --direction=left2right,right2left,concat,sum l1t3mb2_sic8 l2t2mb3_sic9"
    ),
    "rnn of activations": (
        "--rnn --prop=FWD_I,BWD_DW --activation=RELU,TANH,LOGISTIC --tag=any,ntc:any:ntc "
        "--trivial-strides=true,false l1t4mb3_sic8_slc5"
    ),
    "rnn gradients": (
        "--rnn --prop=BWD_DW --alg=VANILLA_LSTM,VANILLA_GRU,LBR_GRU --activation=UNDEF --cfg=f32,bf16f32 "
        "--flags=,O --direction=left2right,right2left,concat,sum l1t3mb2_sic8_slc5 l2t2mb3_sic9"
    ),
    "rnn of bytes": (
        "--rnn --prop=FWD_I --alg=VANILLA_LSTM,VANILLA_GRU,LBR_GRU --activation=UNDEF "
        "--cfg=u8u8u8u8,u8u8u8f32,f32u8f32u8,f32u8f32f32 --direction=left2right,right2left,concat,sum "
        "--scaling=common,per_oc l1t3mb3_sic20 l2t4mb3_sic20"
    ),
}
