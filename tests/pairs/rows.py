# SPDX-License-Identifier: BSD-3-Clause
"""Modules that tests/nn_rows.py lacks: those that draw random numbers, have a state or need a mask.

A row is `constructor | inputs | call`. The call is an expression of the module `m` and the list of
inputs `x`; it may be left out if it is `m(*x)`.
"""

RANDOM = """
nn.Dropout(0.4) | T(3, 4)
nn.Dropout1d(0.4) | T(2, 3, 4)
nn.Dropout2d(0.4) | T(2, 3, 4, 2)
nn.Dropout3d(0.4) | T(2, 3, 2, 2, 2)
nn.AlphaDropout(0.4) | T(3, 4)
nn.FeatureAlphaDropout(0.4) | T(2, 3, 4)
nn.RReLU(0.1, 0.4) | T(3, 4)
nn.FractionalMaxPool2d(2, output_size=(3, 4)) | T(2, 3, 6, 7)
nn.FractionalMaxPool3d(2, output_ratio=0.6) | T(1, 2, 5, 7, 6)
nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2)) | T(5, 3)
nn.TransformerEncoderLayer(4, 2, 6, 0.3) | T(3, 2, 4)
nn.LSTM(3, 4, num_layers=2, dropout=0.4) | T(4, 2, 3)
nn.MultiheadAttention(4, 2, dropout=0.4) | T(3, 2, 4) | m(x[0], x[0], x[0])
"""

RECURRENT = """
nn.RNN(3, 4) | T(4, 2, 3), T(1, 2, 4)
nn.RNN(3, 4, num_layers=2, bidirectional=True, nonlinearity='relu') | T(4, 2, 3)
nn.LSTM(3, 4) | T(4, 2, 3), T(1, 2, 4), T(1, 2, 4) | m(x[0], (x[1], x[2]))
nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True) | T(2, 4, 3)
nn.LSTM(3, 4, proj_size=2) | T(4, 2, 3)
nn.GRU(3, 4) | T(4, 2, 3), T(1, 2, 4)
nn.GRU(3, 4, num_layers=2, bias=False) | T(4, 2, 3)
nn.RNNCell(3, 4) | T(2, 3), T(2, 4)
nn.RNNCell(3, 4, nonlinearity='relu') | T(2, 3)
nn.LSTMCell(3, 4) | T(2, 3), T(2, 4), T(2, 4) | m(x[0], (x[1], x[2]))
nn.LSTMCell(3, 4, bias=False) | T(2, 3)
nn.GRUCell(3, 4) | T(2, 3), T(2, 4)
"""

ATTENTION = """
nn.MultiheadAttention(4, 2) | T(3, 2, 4), T(5, 2, 4) | m(x[0], x[1], x[1])
nn.MultiheadAttention(4, 2, batch_first=True) | T(2, 3, 4) | m(x[0], x[0], x[0], average_attn_weights=False)
nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True) | T(3, 2, 4) | m(x[0], x[0], x[0])
nn.MultiheadAttention(4, 2) | T(3, 2, 4) | m(x[0], x[0], x[0], need_weights=False)
nn.MultiheadAttention(4, 2, kdim=3, vdim=5) | T(3, 2, 4), T(5, 2, 3), T(5, 2, 5)
nn.TransformerEncoderLayer(4, 2, 6, 0.0) | T(3, 2, 4)
nn.TransformerEncoderLayer(4, 2, 6, 0.0, 'gelu', norm_first=True, batch_first=True) | T(2, 3, 4)
nn.TransformerEncoderLayer(4, 2, 6, 0.0, batch_first=True).eval() | T(2, 3, 4)
nn.TransformerDecoderLayer(4, 2, 6, 0.0) | T(3, 2, 4), T(5, 2, 4)
nn.Transformer(4, 2, 1, 1, 6, dropout=0.0) | T(3, 2, 4), T(3, 2, 4)
"""  # noqa: E501

BAGS = """
nn.Embedding(5, 3, scale_grad_by_freq=True) | I(2, 4)
nn.Embedding(5, 3, max_norm=1.0) | I(2, 4)
nn.EmbeddingBag(5, 3) | I(2, 4)
nn.EmbeddingBag(5, 3, mode='sum', padding_idx=1) | I(2, 4), P(2, 4) | m(x[0], per_sample_weights=x[1])
nn.EmbeddingBag(5, 3, mode='max', padding_idx=1) | I(2, 4)
nn.AdaptiveLogSoftmaxWithLoss(8, 12, [3, 7], div_value=2.0, head_bias=True) | T(4, 8), tensor([1, 4, 11, 6])
"""  # noqa: E501

LOSSES = """
nn.CTCLoss() | T(5, 2, 4), tensor([[1, 1], [2, 3]]) | m(x[0].log_softmax(-1), x[1], torch.tensor([5, 4]), torch.tensor([2, 1]))
nn.MultiMarginLoss(p=2) | T(3, 4), tensor([0, 3, 1])
nn.MultiLabelMarginLoss() | T(2, 4), tensor([[1, 3, -1, 0], [2, -1, 1, 1]])
nn.MultiLabelSoftMarginLoss() | T(2, 4), I(2, 4, hi=2)
nn.TripletMarginWithDistanceLoss(swap=True) | T(2, 4), T(2, 4), T(2, 4)
nn.BCEWithLogitsLoss() | T(3, 4), P(3, 4) / 3
nn.CrossEntropyLoss(reduction='none') | T(5, 4), I(5, hi=4)
nn.L1Loss(reduction='none') | T(3, 4), T(3, 4)
"""  # noqa: E501

PARAMETRIZED = """
nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)) | T(2, 3)
nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)) | T(2, 3)
nn.utils.parametrizations.orthogonal(nn.Linear(3, 3)) | T(2, 3)
nn.utils.weight_norm(nn.Linear(3, 4)) | T(2, 3)
nn.utils.spectral_norm(nn.Linear(3, 4)) | T(2, 3)
nn.utils.spectral_norm(nn.Conv2d(2, 3, 2)) | T(2, 2, 4, 3)
nn.utils.spectral_norm(nn.Linear(3, 4)).eval() | T(2, 3)
nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)).eval() | T(2, 3)
"""

MIXED = """
nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 2)) | T(3, 2, 6, 6)
nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.LayerNorm(4)) | T(5, 3)
nn.CrossMapLRN2d(3) | T(2, 5, 4, 3)
nn.SyncBatchNorm(3) | T(4, 3, 6)
nn.BatchNorm1d(3) | T(4, 3)
nn.LayerNorm(4) | T(3, 4)
nn.LayerNorm(4, elementwise_affine=False) | T(3, 4)
nn.RMSNorm(4) | T(3, 4)
nn.Hardtanh(-0.5, 0.3, inplace=True) | T(3, 4) | m(x[0] * 1)
nn.MaxPool2d(2) | T(2, 3, 4, 4)
nn.Softmax(-1) | T(3, 4)
"""  # noqa: E501

# Containers and base classes, which compute nothing of their own.
WITHOUT_ROWS = {
    "Container",
    "Module",
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "RNNBase",
    "RNNCellBase",
}
TEXTS = (RANDOM, RECURRENT, ATTENTION, BAGS, LOSSES, PARAMETRIZED, MIXED)
ROWS = [line for text in TEXTS for line in text.strip().splitlines()]
