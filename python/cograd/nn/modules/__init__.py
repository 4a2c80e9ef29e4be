# SPDX-License-Identifier: BSD-3-Clause
"""The layers of cograd.nn."""

from . import (
    _places,
    activation,
    adaptive,
    attention,
    batchnorm,
    container,
    conv,
    embedding_bag,
    layers,
    lazy,
    linear,
    loss,
    loss_labels,
    padding,
    param_container,
    pooling,
    rnn,
    transformer,
    vision,
)
from . import utils as utils
from .activation import *  # noqa: F403
from .adaptive import *  # noqa: F403
from .attention import *  # noqa: F403
from .batchnorm import *  # noqa: F403
from .container import *  # noqa: F403
from .conv import *  # noqa: F403
from .embedding_bag import *  # noqa: F403
from .layers import *  # noqa: F403
from .lazy import *  # noqa: F403
from .linear import *  # noqa: F403
from .loss import *  # noqa: F403
from .loss_labels import *  # noqa: F403
from .module import Module
from .padding import *  # noqa: F403
from .param_container import *  # noqa: F403
from .pooling import *  # noqa: F403
from .rnn import *  # noqa: F403
from .transformer import *  # noqa: F403
from .vision import *  # noqa: F403

# Written with +=, the only form of a computed ``__all__`` that type checkers follow.
__all__: list[str] = ["Module"]
__all__ += activation.__all__
__all__ += adaptive.__all__
__all__ += attention.__all__
__all__ += batchnorm.__all__
__all__ += conv.__all__
__all__ += padding.__all__
__all__ += pooling.__all__
__all__ += vision.__all__
__all__ += lazy.__all__
__all__ += container.__all__
__all__ += embedding_bag.__all__
__all__ += layers.__all__
__all__ += linear.__all__
__all__ += loss.__all__
__all__ += loss_labels.__all__
__all__ += param_container.__all__
__all__ += rnn.__all__
__all__ += transformer.__all__

_places.install(__name__)
