# SPDX-License-Identifier: BSD-3-Clause
"""Records which test shows which line of docs/differences.md."""

import cograd as torch
from cograd.autograd import grad as differentiate

D = torch.float64
SHOWN = {}  # the first cell of a line -> the tests that show it
ELSEWHERE = {
    "a second derivative through a saved intermediate": "test_function_safeguards.py::"
    "test_saved_intermediate_raises_in_double_backward",
    "a saved intermediate kept as `ctx.attribute`": "test_function_safeguards.py::"
    "test_intermediate_kept_as_attribute_raises_in_double_backward",
    "a second derivative through a backward that reads elements (`item()`, `tolist()`)": "test_"
    "function_reads.py::test_second_derivatives_raise_and_first_ones_do_not",
    "a write to an input in the graph without `mark_dirty`": "test_function_safeguards.py::"
    "test_unmarked_write_to_an_input_in_the_graph_raises",
    "`save_for_backward` called twice": "test_function_safeguards.py::"
    "test_second_save_for_backward_raises",
    "a Function that returns tensors only in a list or dict": "test_function_safeguards.py::"
    "test_tensors_in_an_output_container_are_not_lost_silently",
    "a tensor that requires grad in a list argument": "test_function_safeguards.py::"
    "test_tensor_hidden_in_a_container_warns",
    "`needs_input_grad` in `grad(f(a, b), a)`": "test_function_safeguards.py::"
    "test_needs_input_grad_tells_what_this_run_needs",
    "keyword-only arguments of `forward`": "test_function_safeguards.py::"
    "test_keyword_only_arguments_setup_context",
    "the instance style, `Square()(x)`": "test_seeds.py::test_seed_002_instance_style",
    "`once_differentiable`, constant incoming gradient": "test_function_basic.py::"
    "test_once_differentiable_text_is_not_lost_with_a_constant_seed",
    "a hook that closes over its tensor or a later one": "test_memory.py::"
    "test_hook_that_closes_over_its_own_tensor_does_not_grow",
    "`backward(create_graph=True)` and `.grad`": "test_memory.py::"
    "test_create_graph_grad_cycle_does_not_grow",
    "`ctx` that holds a list of later results": "test_memory.py::"
    "test_context_that_holds_the_final_result_does_not_grow",
    '`node.metadata["y"] = y`, `x.child = x * 2`': "test_memory.py::"
    "test_node_metadata_that_holds_the_output_does_not_grow",
    "`a.add_(b * a)`, recorded and dropped": "test_memory.py::"
    "test_write_by_an_op_that_saved_the_tensor_does_not_grow",
    "`grad_fn.apply(g)` and `grad_fn(g)`": "test_autograd_hooks.py::"
    "test_grad_fn_apply_works_on_built_in_nodes",
    "writes to two views of a constant, one after the other": "test_view_rules.py::"
    "test_two_views_of_a_constant_base",
    "a view of a leaf whose `requires_grad` was switched off": "test_view_rules.py::"
    "test_view_that_is_a_leaf",
    "a forbidden write to an inference tensor": "test_autograd_modes.py::"
    "test_refused_write_to_inference_tensor_changes_nothing",
    "`ReLU(inplace=True)` with a full backward hook": "test_module_hooks.py::"
    "test_in_place_activation_under_a_full_backward_hook",
    "a write to the output of a module with a full backward hook": "test_module_hooks.py::"
    "test_output_may_be_written",
    "a write to an input that such a module kept, after the call": "test_hooks_and_writes.py::"
    "test_gradients_are_those_without_hooks",
    '"modified by an inplace operation" in anomaly mode': "test_anomaly.py::"
    "test_the_writer_is_named",
    "Ctrl-C in a long `backward`": "test_reentrant.py::"
    "test_keyboard_interrupt_stops_a_long_backward",
    "`StopIteration` in a `DataLoader`'s worker": "test_data_workers.py::"
    "test_exceptions_of_a_worker",
    "`linalg.eigvals` of NaN, small matrices": "test_linalg_complex.py::test_nan_is_refused",
    "a C++ Function under `vmap`, `grad`, `jvp`": "test_extension_transforms.py::test_samples",
    "`backward` in C++ called with the interpreter lock": "test_extension_cpp.py::"
    "test_backward_with_the_gil_held",
    "`load` after a change of a header, in the same process": "test_cpp_extension_build.py::"
    "test_header_edit_between_loads_in_one_process",
    "`load` after a build that was killed": "test_cpp_extension_build.py::"
    "test_old_lock_file_does_not_matter",
    "`generate_vmap_rule`, a result of unbatched arguments only": "test_function_vmap.py::"
    "test_an_output_of_an_unbatched_input_alone_counts_once_for_each_sample",
    "`fork` after a product or backward on several threads": "test_reentrant.py::"
    "test_fork_after_use",
    "a program that ends while daemon threads compute": "fuzz/test_fuzz.py::"
    "test_programs_that_end_badly",
    "a list that changes while it is read as a shape": "test_hostile_sequences.py::"
    "test_a_list_that_its_items_clear",
    "not enough memory for a tensor": "test_out_of_memory.py::"
    "test_the_error_is_both_a_memory_error_and_a_runtime_error",
    "`LKJCholesky(4).sample()`": "test_distributions_values.py::test_lkj",
    "a tensor over a read-only array or bytes": "test_interop_lifetime.py::"
    "test_read_only_array_cannot_be_written",
    "`frombuffer` at an unaligned offset": "test_interop_lifetime.py::"
    "test_unaligned_memory_is_refused",
    "`memoryview(t)`": "test_interop_numpy.py::test_memoryview",
    "`resize_` of shared memory": "test_multiprocessing.py::test_resizing_is_refused",
    "`save` that fails": "test_serialization.py::test_save_replaces_a_file_as_a_whole",
    "full backward hooks of a module under `vmap`": "test_module_hooks.py::"
    "test_full_backward_hooks_run_once_for_all_samples_of_a_vmap",
    "running statistics of `batch_norm` batched with `in_dims=1`": "test_running_stats.py::"
    "test_running_statistics_along_another_dim_and_of_nested_vmaps",
    "a forward gradient of `running_mean`, `running_var`": "test_running_stats.py::"
    "test_a_forward_gradient_of_a_running_statistic_raises",
    "`spectral_norm` in forward mode": "test_running_stats.py::"
    "test_modules_that_write_their_buffers_run_inside_of_transforms",
    "second derivatives of `embedding(scale_grad_by_freq=True)`": "test_nn_labels.py::"
    "test_the_second_derivative_of_an_embedding_scaled_by_frequency",
    "`cosine_similarity` of zero vectors of float16": "test_nn_labels.py::"
    "test_cosine_similarity_of_zero_vectors_of_float16",
    "`pickle` of a result in a graph": "test_tensor_copy.py::test_pickle_of_non_leaf_raises",
}


def shows(*lines):
    def keep(test):
        for line in lines:
            SHOWN.setdefault(line, []).append(test.__name__)
        return test

    return keep


def leaf(*values, dtype=D):
    return torch.tensor(values, dtype=dtype, requires_grad=True)


def slope(f, *values, dtype=D):
    """Returns the gradients of the sum of f with respect to its tensors."""
    xs = [torch.tensor(v, dtype=dtype, requires_grad=True) for v in values]
    found = differentiate(f(*xs).sum(), xs)
    return found[0].tolist() if len(found) == 1 else [g.tolist() for g in found]
