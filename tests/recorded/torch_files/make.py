# SPDX-License-Identifier: BSD-3-Clause
"""Writes the files of this folder: run it here with a Python that has torch 2.13."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import torch_files

torch.manual_seed(0)
model, optimizer = torch_files.trained(torch)
everything = torch_files.everything(torch, model, optimizer)
torch.save(everything, "all.pt")
torch.save(model.eval(), "module.pt")
rows = []
for module, inputs in torch_files.layers(torch):
    with torch.no_grad():
        rows.append((module, inputs, module(*inputs)))
torch.save({"layers": rows, **torch_files.whole_objects(torch)}, "whole.pt")
torch.save([torch_files.with_attributes(torch), torch_files.values(torch)], "values.pt")
linear = torch.nn.Linear(2, 2)
linear.weight.no_decay = True
torch.save(linear, "marked.pt")
torch.save(everything["base"], "legacy.pt", _use_new_zipfile_serialization=False)
torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), "script.pt")
