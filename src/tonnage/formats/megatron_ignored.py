"""Options under Megatron's names that change neither memory nor time, or not by design.

Patterns of names without hyphens in front. Data, logging, checkpoints, learning rates,
random numbers, fault tolerance, and choices whose cost is below what is modelled.
"""

from __future__ import annotations

IGNORED = tuple(
    """
    adam-* adlr-* aiq-* allow-ambiguous-* app-tag-* apply-layernorm-1p
    apply-query-key-layer-scaling apply-residual-connection-post-layernorm apply-rope-fusion
    async-* attention-softmax-in-fp32 auto-detect-* auto-tune* barrier-* batch-p2p-comm
    bias-*-fusion bias-activation-fusion bias-dropout-* bos-* calc-ft-* calculate-per-token-loss
    check-* ckpt-* clip-grad config-logger-* cp-comm-type cross-entropy-fusion-impl cuda-graph-*
    data-* dataloader* dataset-* ddp-* decoupled-* decrease-batch-* defer-*
    defer-embedding-wgrad-compute dependent-* deterministic-mode disable-bf16-* disable-gloo-*
    disable-jit-* disable-mamba-* disable-straggler-* disable-tp-comm-* dist-ckpt-*
    distrib-optim-* distributed-backend distributed-init-* distributed-timeout-* dump-*
    empty-unused-memory-level enable-cuda-graph enable-experimental enable-ft-* enable-gloo-*
    enable-one-logger end-weight-decay eod-* eos-* error-injection-* eval-* exit-* exit-on-*
    exp-name expert-tensor-* external-cuda-graph ffn-dropout fim-* finetune first-last-layers-bf16
    fp16-lm-cross-entropy fp8-amax-* fp8-dpa fp8-e4m3 fp8-hybrid fp8-interval fp8-margin fp8-mha
    fp8-output-proj fp8-recipe fp8-wgrad fsdp-* ft-* full-validation
    get-attention-mask-from-fusion glu-linear-offset grad-allreduce-* grad-div-ar-fusion
    grad-scale-* gradient-as-bucket-view group-query-attention headscale hf-* hierarchical-*
    high-* high-priority-* hysteresis inference-* init-* init-method* initial-loss-scale
    inprocess-* is-instruction-* iterations-to-skip job-name kitchen-* layernorm-* lazy-mpu-init
    legacy-* load load-* local-rank log-* log-energy logging-* loss-scale* lr lr-* main-*
    make-vocab-* manual-gc* mask-* masked-softmax-fusion max-tokens-to-oom megatron-amp-*
    memory-snapshot-path merge-file microbatch-group-* min-loss-scale min-lr mmap-* mock-data
    moe-apply-probs-* moe-aux-* moe-deepep-* moe-extended-tp moe-flex-dispatcher-*
    moe-grouped-gemm moe-hybridep-* moe-input-jitter-* moe-pad-expert-* moe-per-layer-logging
    moe-permute-* moe-router-* moe-shared-expert-overlap moe-token-* moe-token-drop-policy
    moe-upcycling-* moe-use-* moe-z-loss-* mscale mscale-all-dim mtp-loss-scaling-factor muon-*
    native-amp-* nccl-* no-align-* no-async-* no-barrier-* no-bias-* no-check-* no-clone-*
    no-create-attention-mask-* no-data-* no-document-* no-early-* no-fp8-* no-initialization
    no-load-* no-log-* no-manual-gc-* no-masked-* no-mmap-* no-one-logger no-overlap-p2p-*
    no-persist-layer-norm no-pin-* no-query-key-* no-rope-fusion no-save-* no-scaled-* no-shared-*
    no-strict-* no-use-tokenizer-* non-persistent-* norm-epsilon normalize-attention-scores nsys-*
    num-dataset-builder-* num-layers-at-*-in-bf16 num-workers numa-* nvtx-* object-storage-*
    one-logger-* onnx-* openai-gelu original-* outer-dp-* output-* overlap-cpu-* overlap-p2p-*
    overlap-param-gather-with-* override-* params-* per-dataset-* per-split-*
    perform-initialization persist-layer-norm persistent-* pin-cpu-*
    pipeline-model-parallel-comm-backend post-process pre-process pretrained-causal-*
    pretrained-checkpoint profile profile-* query-in-block-prob rank* record-memory-history
    reduce-amax replication* rerun-* reset-* result-rejected-* reuse-grad-buf-* rope-* rotary-base
    rotary-interleaved rotary-scaling-* rotary-seq-len-* run-workload-* s3-* sample-rate save
    save-* scale-* seed sgd-momentum sharp-* short-seq-prob skip-* skip-train spec split
    start-weight-decay straggler-* suggested-* sync-* te-* tensorboard-* test-* tiktoken-*
    timing-* tokenizer-* torch-* tp-comm-* tracking-* train-data-* train-iters train-samples
    train-sync-* transformer-block-type transformer-impl trust-* untie-* use-checkpoint-*
    use-cpu-initialization use-custom-fsdp use-dist-ckpt* use-flash-attn use-fused-weighted-*
    use-kitchen* use-legacy-* use-mcore-* use-mp-args-* use-one-sent-* use-persistent-*
    use-precision-aware-optimizer use-pytorch-profiler use-ring-exchange-* use-rope-scaling
    use-sharp use-te-activation-func use-torch-optimizer-* use-tp-pp-dp-mapping
    use-transformer-engine* valid-* variable-seq-lengths verify-integrity vocab-extra-ids
    vocab-file wandb-* warmup weight-decay* wgrad-deferral-limit workers yaml-cfg yarn-*
    """.split()
)
