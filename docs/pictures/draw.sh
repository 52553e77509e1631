#!/bin/sh
# Draws the pictures of the documents: `make pictures`. A test checks that they are what is drawn today.
set -e
cd "$(dirname "$0")"

restride show nChw16c 1x17x2x2 --force --svg nChw16c.svg
restride show nchw 1x5x2x3 --dst nhwc --force --svg nchw-to-nhwc.svg
restride show nchw 1x17x1x2 --dst nChw16c --force --svg nchw-to-nChw16c.svg
restride show OI2i4o2i 5x6 --force --svg OI2i4o2i.svg
restride show BA2a4b4a 8x6 --dtype s8 --force --svg vnni.svg
restride show nchw 1x8x2x3 --force --svg nchw.svg
restride show nhwc 1x8x2x3 --force --svg nhwc.svg
restride show nChw4c 1x8x2x3 --force --svg nChw4c.svg
restride show nChw4c 1x6x2x2 --force --svg padding.svg
restride show nhwc 1x8x2x3 --dst nChw4c --force --svg nhwc-to-nChw4c.svg
restride show nhwc 1x6x1x3 --dst nChw4c --force --svg front.svg
restride show oi 8x6 --dst OI4i4o --force --svg weights.svg
restride show nchw 1x6x2x2 --dst nChw4c --force --html nchw-to-nChw4c.html
restride show ab 3x4 --dst ba --force --svg ab-to-ba.svg
restride show nCdhw4c 1x6x2x2x2 --force --svg nCdhw4c.svg
restride show OIhw4i4o 6x5x1x1 --force --svg OIhw4i4o.svg
restride show OIhw4i16o4i 20x9x1x1 --force --svg OIhw4i16o4i.svg
restride show OIhw4i16o4i 20x9x1x1 --force --html OIhw4i16o4i.html
restride show gOIhw4o4i 2x4x5x1x1 --force --svg gOIhw4o4i.svg
restride show ab 3x5 --dtype s4 --force --svg s4.svg
restride show gguf.q4_0 --force --svg gguf.q4_0.svg
restride show gguf.q4_1 --force --svg gguf.q4_1.svg
restride show gguf.q8_0 --force --svg gguf.q8_0.svg
restride show gguf.q5_0 --force --svg gguf.q5_0.svg
restride show gguf.q5_1 --force --svg gguf.q5_1.svg
restride show gguf.q2_k --force --svg gguf.q2_k.svg
restride show gguf.q3_k --force --svg gguf.q3_k.svg
restride show gguf.q4_k --force --svg gguf.q4_k.svg
restride show gguf.q5_k --force --svg gguf.q5_k.svg
restride show gguf.q6_k --force --svg gguf.q6_k.svg
restride show gguf.q8_k --force --svg gguf.q8_k.svg
restride show gguf.iq4_nl --force --svg gguf.iq4_nl.svg
restride show gguf.mxfp4 --force --svg gguf.mxfp4.svg
restride show mxfp4 --force --svg mxfp4.svg
restride show mxfp8 --force --svg mxfp8.svg
restride show nvfp4 --force --svg nvfp4.svg
restride show fp8_blocks --force --svg fp8_blocks.svg
restride show awq --force --svg awq.svg
restride show gptq --force --svg gptq.svg
restride show marlin --force --svg marlin.svg
restride show torchao_int4_cpu --force --svg torchao_int4_cpu.svg
python -c 'from restride.view.explore_page import *; print(explore_page(), end="")' >explore.html
python -c 'from restride.layouts import *; print(Layout("((4,2),8):((1,16),2)").svg())' >cute-layout.svg
python -c 'from restride.layouts import *; print(Swizzle(3, 0, 3).compose("(8,8):(8,1)").svg())' >swizzled-layout.svg
python -c 'from restride.layouts import *; print(bank_conflicts("(8,8):(64,8)", 2, vector=8, lanes=8).svg())' >bank-conflicts.svg
python -c 'from restride.layouts import *; print(bank_conflicts(Swizzle(3, 3, 3).compose("(8,8):(64,8)"), 2, vector=8, lanes=8).svg())' >bank-conflicts-swizzled.svg
