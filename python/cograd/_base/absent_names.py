# SPDX-License-Identifier: BSD-3-Clause
# Written by make stubs from the rows of python/surface/absent.toml: change those.
"""Lists torch's names that cograd lacks: topics, their names, and what to use instead."""

from __future__ import annotations

__all__ = ["INSTEAD", "NAMES", "TOPICS", "WHOLE"]

TOPICS = {
    "sparse": (
        "of sparse tensors there is what differentiable programs use, in the layouts sparse_coo, "
        "sparse_csr, sparse_csc, sparse_bsr and sparse_bsc: call to_dense() for the rest"
    ),
    "quantized": "quantized tensors and their ops are not offered: use bfloat16 or float16",
    "nested": "nested and jagged tensors are not offered: use nn.utils.rnn, or padding and masks",
    "masked": "masked tensors are not offered: use masked_fill, where and nan-aware reductions",
    "named": "named tensors are not offered: use positions, or einops",
    "jit": (
        "TorchScript is not offered: jit.script returns its argument and runs as Python; use "
        "jit.trace, or save state_dict()"
    ),
    "fx": (
        "symbolic sizes, make_fx and passes for compilers are not offered: fx traces modules and "
        "functions on proxies"
    ),
    "export": (
        "this export is not offered: use onnx.export or jit.trace, or save state_dict() and the "
        "code that builds it"
    ),
    "gpu": (
        "this part of torch's support for accelerators is not offered: tensors are on the CPU or "
        "on NVIDIA GPUs"
    ),
    "meta": "there are no fake tensors: use tensors on the meta device, torch.device('meta')",
    "distributed": (
        "processes communicate by MPI through distributed: stores, rpc, meshes, FSDP and what "
        "needs several devices are not offered"
    ),
    "dtypes": (
        "this dtype is not offered: there are bool, int8 to int64, uint8 to uint64, float16, "
        "bfloat16, float32, float64, complex64 and complex128"
    ),
    "compiler": "there is no compiler: compile returns its argument; ops run one by one",
    "dispatcher": (
        "the dispatcher is not exposed: override ops with __torch_function__, or register them "
        "with library.custom_op"
    ),
    "datapipes": "datapipes are not offered: use Dataset, IterableDataset and DataLoader",
    "hub": "nothing is downloaded: get the file yourself and read it with load",
    "internal": "it is a part of torch's own machinery, with no counterpart here",
    "copies": "copies of views are functions: call narrow_copy(x, ...)",
    "first_class_dims": "first-class dims are not offered: index with brackets, or use func.vmap",
    "packages": "torch.package and torch.monitor are not offered: use zipimport and logging",
}
INSTEAD = {
    "eig": "cograd.linalg.eig",
    "lstsq": "cograd.linalg.lstsq",
    "matrix_rank": "cograd.linalg.matrix_rank",
    "solve": "cograd.linalg.solve",
    "symeig": "cograd.linalg.eigh",
    "native_norm": "cograd.norm: the op takes sparse tensors alone",
    "autograd.NestedIOFunction": "cograd.autograd.Function, whose apply takes nested tuples",
    "autograd.graph.region_activation_memory_budget": "cograd.utils.checkpoint",
    "library.get_ctx": "library.register_fake: its function runs on real sizes",
    "library.get_kernel": "cograd.ops: an op is found there by name, and called",
    "library.register_autocast": "autocast inside of the op",
    "nn.utils.rnn.PackedSequence_": "cograd.nn.utils.rnn.PackedSequence",
    "utils.benchmark.Colorize": "print of each Measurement",
    "utils.benchmark.Compare": "print of each Measurement, or a table of their medians",
    "utils.benchmark.Fuzzer": "loops over sizes, or hypothesis",
    "utils.benchmark.FuzzedParameter": "loops over sizes, or hypothesis",
    "utils.benchmark.FuzzedSparseTensor": "loops over sizes, or hypothesis",
    "utils.benchmark.FuzzedTensor": "loops over sizes, or hypothesis",
    "utils.benchmark.ParameterAlias": "loops over sizes, or hypothesis",
    "utils.flop_counter": "autograd.profiler, which times ops: their operations are not counted",
    "utils.ffi": "cograd.utils.cpp_extension; plain C works through cograd/c_api.h",
    "chalf": "cograd.cfloat: there is no complex dtype of half precision",
    "complex32": "cograd.complex64: there is no complex dtype of half precision",
    "nn.Container": "cograd.nn.Module",
}
WHOLE = {
    "_higher_order_ops": "dispatcher",
    "accelerator": "gpu",
    "distributed": "distributed",
    "distributed.tensor": "distributed",
    "fx": "fx",
    "mps": "gpu",
    "mtia": "gpu",
    "onnx": "export",
    "xpu": "gpu",
}
NAMES = {
    "": {
        "sparse": (
            "ccol_indices_copy col_indices_copy crow_indices_copy indices_copy values_copy "
            "row_indices_copy hspmm smm saddmm sspaddmm resize_as_sparse_ to_dense"
        ),
        "quantized": (
            "ao quantization qint8 qint32 quint8 quint2x4 quint4x2 qscheme QInt32Storage "
            "QInt8Storage QUInt2x4Storage QUInt4x2Storage QUInt8Storage choose_qparams_optimized "
            "dequantize empty_quantized fake_quantize_per_channel_affine "
            "fake_quantize_per_tensor_affine fbgemm_linear_fp16_weight "
            "fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight "
            "fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight "
            "fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix "
            "fused_moving_avg_obs_fake_quant int_repr per_channel_affine "
            "per_channel_affine_float_qparams per_channel_symmetric per_tensor_affine "
            "per_tensor_symmetric q_per_channel_axis q_per_channel_scales "
            "q_per_channel_zero_points q_scale q_zero_point quantize_per_channel "
            "quantize_per_tensor quantize_per_tensor_dynamic quantized_batch_norm quantized_gru "
            "quantized_gru_cell quantized_lstm quantized_lstm_cell quantized_max_pool1d "
            "quantized_max_pool2d quantized_max_pool3d quantized_rnn_relu_cell "
            "quantized_rnn_tanh_cell"
        ),
        "nested": "nested jagged",
        "masked": "masked",
        "named": "align_tensors",
        "jit": (
            "AliasDb AnyType Argument ArgumentSpec AwaitType Block BoolType CallStack Capsule "
            "ClassType Code CompilationUnit CompleteArgumentSpec ComplexType ConcreteModuleType "
            "ConcreteModuleTypeBuilder DeepCopyMemoTable DeserializationStorageContext "
            "DeviceObjType DictType EnumType ErrorReport ExecutionPlan FileCheck FloatType "
            "FunctionSchema FutureType Gradient Graph GraphExecutorState IODescriptor "
            "InferredType IntType InterfaceType JITException ListType LiteScriptModule "
            "LockingLogger LoggerBase Node NoneType NoopLogger NumberType OperatorInfo "
            "OptionalType PyObjectType RRefType ScriptClass ScriptClassFunction ScriptDict "
            "ScriptDictIterator ScriptDictKeyIterator ScriptFunction ScriptList "
            "ScriptListIterator ScriptMethod ScriptModule ScriptModuleSerializer ScriptObject "
            "ScriptObjectProperty SerializationStorageContext StaticModule StreamObjType "
            "StringType SymBoolType SymIntType TensorType TracingState TupleType Type UnionType "
            "Use Value fork wait import_ir_module import_ir_module_from_buffer "
            "merge_type_from_type_comment parse_ir parse_schema parse_type_comment"
        ),
        "fx": "sym_float sym_fresh_size sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum",
        "export": "export",
        "gpu": (
            "Stream Event cudnn_affine_grid_generator cudnn_batch_norm cudnn_convolution "
            "cudnn_convolution_add_relu cudnn_convolution_relu cudnn_convolution_transpose "
            "cudnn_grid_sampler cudnn_is_acceptable miopen_batch_norm miopen_convolution "
            "miopen_convolution_add_relu miopen_convolution_relu miopen_convolution_transpose "
            "miopen_ctc_loss miopen_depthwise_convolution miopen_rnn is_vulkan_available "
            "get_autocast_ipu_dtype get_autocast_xla_dtype is_autocast_ipu_enabled "
            "is_autocast_xla_enabled set_autocast_ipu_dtype set_autocast_ipu_enabled "
            "set_autocast_xla_dtype set_autocast_xla_enabled"
        ),
        "dtypes": (
            "bit bits16 bits1x8 bits2x4 bits4x2 bits8 float4_e2m1fn_x2 float8_e4m3fn "
            "float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu int1 int2 int3 int4 int5 "
            "int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7"
        ),
        "dispatcher": (
            "DispatchKey DispatchKeySet ExcludeDispatchKeyGuard Tag "
            "prepare_multiprocessing_environment _decomp _functorch _ops _prims_common"
        ),
        "compiler": "_inductor",
        "meta": "_subclasses",
        "internal": (
            "AVG SUM AggregationType AcceleratorError BenchmarkConfig BenchmarkExecutionStats "
            "BufferDict FatalError ModuleDict ParameterDict PyTorchFileReader PyTorchFileWriter "
            "ThroughputBenchmark batch_norm_backward_elemt batch_norm_backward_reduce "
            "batch_norm_elemt batch_norm_gather_stats batch_norm_gather_stats_with_counts "
            "batch_norm_stats batch_norm_update_stats hash_tensor init_num_threads "
            "mkldnn_adaptive_avg_pool2d mkldnn_convolution mkldnn_linear_backward_weights "
            "mkldnn_max_pool2d mkldnn_max_pool3d mkldnn_rnn_layer native_channel_shuffle "
            "segment_reduce cpp get_file_path _classes _guards _jit_internal _linalg_utils "
            "_lobpcg _logging _sources _tensor_docs _torch_docs _weights_only_unpickler"
        ),
        "packages": "package monitor",
    },
    "nn": {
        "quantized": "intrinsic qat quantizable quantized",
        "internal": "backends LinearCrossEntropyLoss LinearCrossEntropyOptions",
    },
    "nn.attention": {
        "compiler": (
            "flex_attention varlen activate_flash_attention_impl current_flash_attention_impl "
            "list_flash_attention_impls register_flash_attention_impl "
            "restore_flash_attention_impl"
        ),
        "internal": (
            "SDPAParams WARN_FOR_UNFUSED_KERNELS bias can_use_efficient_attention "
            "can_use_flash_attention"
        ),
    },
    "nn.functional": {
        "internal": (
            "_canonical_mask _in_projection_packed grouped_mm scaled_grouped_mm scaled_mm "
            "linear_cross_entropy ScalingType SwizzleType native_channel_shuffle"
        ),
    },
    "nn.parallel": {
        "distributed": "DistributedDataParallelCPU comm",
        "gpu": "gather parallel_apply replicate scatter _functions",
    },
    "utils": {
        "internal": (
            "ThroughputBenchmark get_cpp_backtrace swap_tensors backcompat backend_registration "
            "cpp_backtrace deterministic throughput_benchmark _device _stats "
            "generate_methods_for_privateuse1_backend rename_privateuse1_backend"
        ),
        "compiler": "_triton",
        "dispatcher": "_python_dispatch",
        "export": "bundled_inputs mobile_optimizer model_dump show_pickle viz",
    },
    "_C": {
        "dispatcher": "_functorch DispatchKey DispatchKeySet",
        "jit": "TensorType _jit_tree_views",
        "gpu": "_cuda_getDeviceCount _CudaDeviceProperties",
        "distributed": "_distributed_c10d",
    },
    "utils.benchmark": {
        "internal": (
            "CallgrindStats CopyIfCallgrind FunctionCount FunctionCounts Language ordered_unique "
            "set_torch_threads trim_sigfig unit_to_english"
        ),
    },
    "storage": {
        "internal": "_LegacyStorage",
    },
    "testing": {
        "internal": "_internal",
    },
    "profiler": {
        "internal": "_utils DeviceType ExecutionTraceObserver KinetoStepTracker RecordScope itt",
    },
    "utils.data": {
        "datapipes": (
            "DFIterDataPipe DataChunk IterDataPipe MapDataPipe argument_validation datapipes "
            "functional_datapipe graph graph_settings guaranteed_datapipes_determinism "
            "non_deterministic runtime_validation runtime_validation_disabled"
        ),
    },
    "autograd": {
        "internal": "_functions",
    },
    "autograd.graph": {
        "gpu": "set_override_stale_capture_stream set_warn_on_accumulate_grad_stream_mismatch",
    },
    "autograd.profiler": {
        "gpu": "emit_itt emit_nvtx load_nvprof parse_nvprof_trace EnforceUnique",
        "internal": "KinetoStepTracker MemRecordsAcc",
    },
    "func": {
        "dispatcher": "debug_unwrap",
        "first_class_dims": "rearrange",
    },
    "library": {
        "dispatcher": "fallthrough_kernel register_torch_dispatch EffectType OpOverload",
        "compiler": "triton_op wrap_triton",
    },
    "cuda": {
        "gpu": (
            "CUDAPluggableAllocator CudaError ExternalStream GreenContext MemPool "
            "caching_allocator_alloc caching_allocator_delete can_device_access_peer "
            "change_current_allocator check_error clock_rate cudaStatus cudart "
            "current_blas_handle get_gencode_flags gds green_contexts jiterator "
            "list_gpu_processes nccl power_draw temperature tunable use_mem_pool utilization "
            "memory_usage set_per_process_memory_fraction get_per_process_memory_fraction"
        ),
    },
    "jit": {
        "jit": (
            "CompilationUnit Error ScriptWarning enable_onednn_fusion freeze fuser "
            "jit_module_from_flatbuffer onednn_fusion_enabled optimize_for_inference "
            "optimized_execution run_frozen_optimizations save_jit_module_to_flatbuffer "
            "set_fusion_strategy set_module strict_fusion last_executed_optimized_graph "
            "export_opnames RecursiveScriptModule"
        ),
    },
}
