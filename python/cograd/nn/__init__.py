# SPDX-License-Identifier: BSD-3-Clause
"""Neural-network modules with torch.nn's names and semantics."""

from typing import TYPE_CHECKING

from cograd import _absent

from . import attention as attention
from . import functional as functional
from . import grad as grad
from . import init as init
from . import modules
from . import parallel as parallel
from . import parameter as parameter
from . import utils as utils
from .modules.activation import *  # noqa: F403
from .modules.adaptive import *  # noqa: F403
from .modules.attention import *  # noqa: F403
from .modules.batchnorm import *  # noqa: F403
from .modules.container import *  # noqa: F403
from .modules.conv import *  # noqa: F403
from .modules.embedding_bag import *  # noqa: F403
from .modules.layers import *  # noqa: F403
from .modules.lazy import *  # noqa: F403
from .modules.linear import *  # noqa: F403
from .modules.loss import *  # noqa: F403
from .modules.loss_labels import *  # noqa: F403
from .modules.module import Module as Module
from .modules.padding import *  # noqa: F403
from .modules.param_container import *  # noqa: F403
from .modules.pooling import *  # noqa: F403
from .modules.rnn import *  # noqa: F403
from .modules.transformer import *  # noqa: F403
from .modules.vision import *  # noqa: F403
from .parallel import DataParallel as DataParallel
from .parameter import Buffer as Buffer
from .parameter import Parameter as Parameter
from .parameter import UninitializedBuffer as UninitializedBuffer
from .parameter import UninitializedParameter as UninitializedParameter

# Type checkers do not read sorted(): they follow the imports above, through cycles too.
__all__: list[str] = sorted(
    [
        "Buffer",
        "Parameter",
        "UninitializedBuffer",
        "UninitializedParameter",
        "functional",
        "init",
        "DataParallel",
        "parallel",
        "parameter",
        "utils",
        *modules.__all__,
    ]
)

if not TYPE_CHECKING:
    __getattr__ = _absent.reporter(__name__)
    del TYPE_CHECKING
