"""Tensors in files: read and written as a whole, and converted in bounded memory.

Suggested reading order:

        plain_file.py, mapped_file.py  file names; plain files opened, read and mapped
        writing/replacement.py         files that appear as a whole or not at all; system errors
        stored_tensors.py              the content of any file: kinds of elements, arrays, notes in its
                                       metadata
        formats/                       .safetensors, .gguf, .npy and .npz: headers read and written
        conversion/tiles.py            boxes of a tensor in two layouts, and the locations of their bytes
        places.py                      moving bytes between files and memory, box by box
        zarr/                          chunk_files.py: boxes and chunk files; arrays.py: arrays as tensors
        tensor_file.py                 the format of a file, by its first bytes or its name
        writing/draft.py               output under another name until it is complete; resuming it
        save.py, load.py               whole tensors, and folders of files
        conversion/                    see there; convert.py executes its plans
        inspection.py                  statistics of numbers, and differences, block by block
        rechunk.py                     Zarr arrays with other chunks
        zarr_codecs.py, zarr_pipeline.py  extensions of the Zarr library
"""
