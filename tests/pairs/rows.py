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

# Functions of Python that compose ops, so the table of ops lacks them.
FFT = """
nn.Identity() | T(3, 5), T(3, 5) | torch.fft.fft(torch.complex(x[0], x[1]), n=4) ** 2
nn.Identity() | T(3, 5), T(3, 5) | torch.fft.ifft(torch.complex(x[0], x[1]), n=7, dim=0, norm='ortho') ** 2
nn.Identity() | T(3, 5) | torch.fft.rfft(x[0], norm='forward') ** 2
nn.Identity() | T(3, 4), T(3, 4) | torch.fft.irfft(torch.complex(x[0], x[1]), n=5) ** 2
nn.Identity() | T(3, 4), T(3, 4) | torch.fft.hfft(torch.complex(x[0], x[1])) ** 2
nn.Identity() | T(3, 5) | torch.fft.ihfft(x[0], norm='ortho') ** 2
nn.Identity() | T(3, 5), T(3, 5) | torch.fft.fft2(torch.complex(x[0], x[1])) ** 2
nn.Identity() | T(2, 3, 4), T(2, 3, 4) | torch.fft.ifft2(torch.complex(x[0], x[1]), dim=(0, 2)) ** 2
nn.Identity() | T(3, 5) | torch.fft.rfft2(x[0], s=(4, 4)) ** 2
nn.Identity() | T(3, 4), T(3, 4) | torch.fft.irfft2(torch.complex(x[0], x[1]), s=(3, 6)) ** 2
nn.Identity() | T(3, 4), T(3, 4) | torch.fft.hfft2(torch.complex(x[0], x[1])) ** 2
nn.Identity() | T(3, 5) | torch.fft.ihfft2(x[0]) ** 2
nn.Identity() | T(2, 3, 2), T(2, 3, 2) | torch.fft.fftn(torch.complex(x[0], x[1])) ** 2
nn.Identity() | T(2, 3, 2) | torch.fft.ifftn(x[0], norm='forward') ** 2
nn.Identity() | T(2, 3, 4) | torch.fft.rfftn(x[0], dim=(0, 2)) ** 2
nn.Identity() | T(2, 3, 3), T(2, 3, 3) | torch.fft.irfftn(torch.complex(x[0], x[1]), norm='ortho') ** 2
nn.Identity() | T(2, 3, 3), T(2, 3, 3) | torch.fft.hfftn(torch.complex(x[0], x[1]), dim=(1, 2)) ** 2
nn.Identity() | T(2, 3, 4) | torch.fft.ihfftn(x[0]) ** 2
nn.Identity() | T(3, 5) | torch.fft.ifftshift(torch.fft.fftshift(x[0], dim=1) ** 2)
nn.Identity() | T(2, 20) | torch.stft(x[0], 8, hop_length=4, return_complex=True, window=torch.ones(8, dtype=x[0].dtype))
nn.Identity() | T(5, 6), T(5, 6) | torch.istft(torch.complex(x[0], x[1]), 8, hop_length=4, window=torch.ones(8, dtype=x[0].dtype)) ** 2
nn.Linear(5, 4) | T(3, 5) | torch.fft.irfft(torch.fft.rfft(m(x[0])) * torch.fft.rfft(x[0][:, :4]), n=4)
"""  # noqa: E501

COPIES = """
nn.Identity() | T(3, 4) | torch.alias_copy(x[0]) ** 2
nn.Identity() | T(3, 4) | torch.as_strided_copy(x[0] * 1, (2, 2), (1, 2), 3) ** 2
nn.Identity() | T(3, 4) | torch.diagonal_copy(x[0], 1) ** 2
nn.Identity() | T(3, 1) | torch.expand_copy(x[0], (2, 3, 4)) ** 2
nn.Identity() | T(3, 4) | torch.narrow_copy(x[0], 1, 1, 2) ** 2
nn.Identity() | T(3, 4, 2) | torch.permute_copy(x[0], (2, 0, 1)) ** 2
nn.Identity() | T(3, 4) | torch.select_copy(x[0], 1, -1) ** 2
nn.Identity() | T(3, 7) | torch.slice_copy(x[0], 1, 1, 6, 2) ** 2
nn.Identity() | T(3, 5) | [p ** 2 for p in torch.split_copy(x[0], 2, 1)]
nn.Identity() | T(3, 5) | [p ** 2 for p in torch.split_with_sizes_copy(x[0], [1, 4], 1)]
nn.Identity() | T(3, 1, 2) | torch.squeeze_copy(x[0]) ** 2
nn.Identity() | T(3, 4) | torch.t_copy(x[0]) ** 2
nn.Identity() | T(3, 4) | torch.transpose_copy(x[0], 0, 1) ** 2
nn.Identity() | T(3, 4) | [p ** 2 for p in torch.unbind_copy(x[0], 1)]
nn.Identity() | T(3, 6) | torch.unfold_copy(x[0], 1, 3, 2) ** 2
nn.Identity() | T(3, 4) | torch.unsqueeze_copy(x[0], 1) ** 2
nn.Identity() | T(3, 4) | torch.view_copy(x[0], (2, 6)) ** 2
nn.Identity() | T(3, 2) | torch.view_as_complex_copy(x[0]) ** 2
nn.Identity() | T(3, 2), T(3, 2) | torch.view_as_real_copy(torch.complex(x[0], x[1]) ** 2)
"""

SPARSE = """
nn.Identity() | T(3, 4), T(4, 2) | torch.sparse.mm(x[0].to_sparse(), x[1])
nn.Identity() | T(3, 4), T(4, 2) | torch.mm(x[0].to_sparse(), x[1] * x[1])
nn.Identity() | T(4) | torch.sparse_coo_tensor(tensor([[0, 1, 1, 2], [2, 0, 0, 1]]), x[0] ** 2, (3, 3)).to_dense()
nn.Identity() | T(4), T(3, 2) | torch.sparse_coo_tensor(tensor([[0, 1, 1, 2], [2, 0, 0, 1]]), x[0], (3, 3)) @ x[1]
nn.Identity() | T(3, 4) | torch.sparse.sum(x[0].to_sparse() * 2, dim=0).to_dense() ** 2
nn.Identity() | T(3, 4), T(3, 4) | (x[0].to_sparse() + x[1].to_sparse()).to_dense() ** 2
nn.Identity() | T(3, 4) | x[0].to_sparse().coalesce().values() ** 2
nn.Identity() | T(3, 4) | torch.sparse.softmax(x[0].to_sparse(), 1).to_dense()
nn.Identity() | T(2, 2), T(2, 4), T(4, 2) | torch.sparse.addmm(x[0], x[1].to_sparse(), x[2])
nn.Identity() | T(3, 4), T(4, 2) | x[0].to_sparse_csr() @ x[1]
"""  # noqa: E501

READS = """
nn.Identity() | T(3, 4) | own.cube_by_elements(x[0])
nn.Identity() | T(3, 4) | own.cube_by_item(x[0])
nn.Identity() | T(3, 4) | own.cube_once(x[0])
nn.Linear(3, 4) | T(2, 3) | own.cube_by_elements((x[0] * m.weight[0]).tanh()).sin()
"""

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
TEXTS += (FFT, COPIES, SPARSE, READS)
ROWS = [line for text in TEXTS for line in text.strip().splitlines()]
