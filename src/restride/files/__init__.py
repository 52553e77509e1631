"""Tensors in files: what a file holds, read and written whole, and converted in bounded memory.

Read in this order:

    plain_file.py, mapped_file.py  names of files; plain files opened, read and mapped
    writing/replacement.py         files that appear whole or not at all; errors of the system
    stored_tensors.py              what any file holds: kinds of elements, arrays, the notes in its metadata
    formats/                       .safetensors, .gguf, .npy and .npz: headers read and written
    conversion/tiles.py            boxes of a tensor in two layouts, and where their bytes lie
    places.py                      bytes between files and memory, box by box
    zarr/                          chunk_files.py: boxes and files of chunks; arrays.py: arrays as tensors
    tensor_file.py                 which format a file has, by its first bytes or its name
    writing/draft.py               what is written under another name until it is whole, and resumed
    save.py, load.py               whole tensors, and folders of files
    conversion/                    see there; convert.py does what it plans
    inspection.py                  statistics of numbers, and differences, block by block
    rechunk.py                     Zarr arrays into other chunks
    zarr_codecs.py, zarr_pipeline.py  what Zarr's own library calls
"""
