"""Kernels that spin for their like on other GPUs are known by name: the libraries' and the site's; no other kernel is taken for one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from shim_daemon import Daemon, wait_for
from shim_program import Program

from scripts import native_program

pytest_plugins = ["shim_fixtures"]

ROOT = Path(__file__).resolve().parents[3]
COOPERATIVE = 2

# As the driver has them: C++ names mangled, with the namespaces of their libraries.
SPINNING = [
    "ncclDevKernel_AllReduce_Sum_f16_RING_LL",
    "_Z39ncclDevKernel_AllReduce_Sum_bf16_TREE_LL24ncclDevKernelArgsStorageILm4096EE",
    "_Z35ncclKernel_AllReduce_RING_LL_Sum_float11ncclDevComm",
    "_ZN4vllm26cross_device_reduce_1stageI6__halfLi2EEEvPNS_8RankDataENS_11RankSignalsEPNS_6SignalEPT_ii",
    "_ZN5aiter26cross_device_reduce_2stageIDF16bLi8ELb0EEEv",
    "_ZN12_GLOBAL__N_126one_shot_all_reduce_kernelIN3c108BFloat16ELi16ELi8EEEvPPT_S4_mmPPjmm",
    "_ZN12_GLOBAL__N_126two_shot_all_reduce_kernelIfLi16ELi8EEEvPPT_S2_mmPPjmm",
    "_ZN12_GLOBAL__N_126multimem_all_reduce_kernelIN3c108BFloat16ELi16EEEvPT_mPPjmm",
    "_ZN12_GLOBAL__N_135multimem_one_shot_all_reduce_kernelIfLi16EEEvPT_S2_mPPjmm",
    "_ZN69_GLOBAL__N__a2c41d5e_23_CUDASymmetricMemory_cu_9d1b8c0f_114014barrier_kernelEPPjimm",
    "_ZN10flashinfer23trtllm_allreduce_fusion39allreduce_fusion_kernel_oneshot_lamportILNS0_22AllReduceFusionPatternE1EEEv",
    "_ZN12tensorrt_llm7kernels26ar_fusion37allreduce_fusion_kernel_twoshot_syncEv",
    "_ZN12tensorrt_llm7kernelsL22oneShotAllReduceKernelI6__halfLi8ELb1ELb0EEEvNS0_15AllReduceParamsE",
    "_ZN12tensorrt_llm7kernels34lowPrecisionTwoShotAllReduceKernelI6__halfLi8EEEvv",
    "_ZN10flashinfer22trtllm_mnnvl_allreduce24twoshot_allreduce_kernelILi4E13__nv_bfloat16EEvPT0_",
    "_Z33userbuffers_fp16_sum_inplace_gpu_mcILi8EEviiiiiiiPvPS0_",
    "_Z22nvshmemi_reduce_kernelIfL9rdxn_ops3EEviiiPT_PKS1_",
    "_ZN7mscclpp15executionKernelINS_10LL16PacketELb0EEEviPvS2_mNS_8DataTypeE",
    "_ZN7deep_ep9intranode8dispatchILi8ELi768ELi8192EEEvP4int4PfPiPl",
    "_ZN7deep_ep9internode7combineILb0E13__nv_bfloat16Li4EEEvv",
    "_ZN7deep_ep12internode_ll8dispatchILb1ELb0ELi7168EEEvPvS1_",
    "void deep_ep::internode_ll::combine<true, 7168>(void*)",
]
ORDINARY = [
    "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_7MeanOpsIfffEEjfLi4EEEEEvT1_",
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEEEEvi",
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
    "_ZN7cutlass13device_kernelIN5flash11FlashAttnFwdEEEvv",
    "_ZN4vllm15rms_norm_kernelIN3c108BFloat16EEEvPT_",
    "_ZN7deep_ep6layout19get_dispatch_layoutILi256ELi4ELi2EEEvPKlPiS4_S4_Pbiiii",
    "_ZN10flashinfer4norm13RMSNormKernelILj8E6__halfEEvPT0_",
    "_ZN12tensorrt_llm7kernels23blockAllReduceSumKernelIfEEvPT_",
    "triton_poi_fused_add_mul_0",
    "fused_moe_kernel",
    "one_shot_softmax",
    "multi_tensor_apply_kernel",
    "my_kernel_nccl",
    "",
]  # fmt: skip


@pytest.fixture(scope="module")
def says(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], bool]:
    """What the shim says of a name."""
    source = tmp_path_factory.mktemp("collective") / "main.c"
    source.write_text(
        '#include "identity/collective.h"\nint main(int n, char **v) { return n == 2 && fikit_is_collective(v[1]) ? 0 : 3; }\n'
    )
    program = native_program.build(source.with_name("collective"), [source], ["-O1", "-g"])

    def ask(name: str) -> bool:
        code = subprocess.run([program, name], check=False).returncode
        assert code in {0, 3}
        return code == 0

    return ask


@pytest.mark.parametrize("name", SPINNING)
def test_kernel_that_waits_for_other_gpus_is_known_by_its_name(says: Callable[[str], bool], name: str) -> None:
    assert says(name)


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_kernel_is_taken_for_no_collective(says: Callable[[str], bool], name: str) -> None:
    assert not says(name)


def test_a_name_longer_than_fikitd_is_told_is_known_by_its_beginning(says: Callable[[str], bool]) -> None:
    assert says("_Z26cross_device_reduce_1stage" + "I6__half" * 1000)


LAUNCHES = """
context()
for name in ("my_all_reduce", "fikit_spin", "ringstep", "cross_device_reduce_1stage"):
    check(launch(function(name)))
pause()
"""


def kinds(program: Callable[..., Program], fikitd: Daemon) -> dict[str, int]:
    running = program(LAUNCHES, fikitd)
    wait_for(lambda: len(fikitd.kernels) == 4, "descriptions")
    found = {kernel["name"]: kernel["kind"] for kernel in fikitd.kernels.values()}
    running.go()
    running.finish()
    return found


def test_a_site_names_its_own(program: Callable[..., Program], daemon: Callable[..., Daemon]) -> None:
    found = kinds(program, daemon(collectives=b"*_all_reduce\0ringstep\0"))
    assert found == {"my_all_reduce": 2, "fikit_spin": 0, "ringstep": 2, "cross_device_reduce_1stage": 2}


@pytest.mark.parametrize("names", [b"", b"\xff" * 2048, b"[" * 2000])
def test_names_that_are_no_patterns_name_nothing(
    program: Callable[..., Program], daemon: Callable[..., Daemon], names: bytes
) -> None:
    found = kinds(program, daemon(collectives=names))
    assert found == {"my_all_reduce": 0, "fikit_spin": 0, "ringstep": 0, "cross_device_reduce_1stage": 2}


def test_a_page_of_an_older_fikitd_has_no_names(program: Callable[..., Program], daemon: Callable[..., Daemon]) -> None:
    assert kinds(program, daemon(collectives=b"ringstep\0", version=4))["ringstep"] == 0
