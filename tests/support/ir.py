"""OpenVINO IRs as text: layers, and whole models around them."""

from __future__ import annotations

from collections.abc import Sequence

# The example of the operation's own page, with its dots.
EXAMPLE = """
 <layer ... type="ShuffleChannels" ...>
     <data group="3" axis="1"/>
     <input>
         <port id="0">
             <dim>5</dim>
             <dim>12</dim>
             <dim>200</dim>
             <dim>400</dim>
         </port>
     </input>
     <output>
         <port id="1">
             <dim>5</dim>
             <dim>12</dim>
             <dim>200</dim>
             <dim>400</dim>
         </port>
     </output>
 </layer>
"""


def port(dims: Sequence[object], attributes: str = 'id="0"') -> str:
    return f"<port {attributes}>{''.join(f'<dim>{n}</dim>' for n in dims)}</port>"


def layer(
    dims: Sequence[object] = (1, 6, 2),
    data: str = 'axis="1" group="3"',
    attributes: str = 'id="3" name="shuffle" version="opset3"',
    out: Sequence[object] | None = None,
) -> str:
    """A ShuffleChannels layer."""
    ports = f"<input>{port(dims)}</input><output>{port(dims if out is None else out)}</output>"
    return f'<layer {attributes} type="ShuffleChannels"><data {data}/>{ports}</layer>'


def net(*layers: str, version: str = 'version="11"') -> str:
    """A whole model."""
    inside = "\n".join(layers)
    edges = '<edges><edge from-layer="0" from-port="0" to-layer="3" to-port="0"/></edges>'
    text = '<?xml version="1.0"?>\n<net name="model" {}>\n<layers>\n{}\n</layers>\n{}<rt_info/></net>\n'
    return text.format(version, inside, edges)


_OUTPUT = port((1, 6, 2), 'id="0" precision="FP32"')
PARAMETER = (
    '<layer id="0" name="x" type="Parameter" version="opset1"><data shape="1,6,2" element_type="f32"/>'
    f"<output>{_OUTPUT}</output></layer>"
)
