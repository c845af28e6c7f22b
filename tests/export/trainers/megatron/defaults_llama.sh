#!/usr/bin/env bash
set -euxo pipefail
TP=${TP:-4}
PP=${PP:-2}
CP=${CP:-1}
MBS=${MBS:-1}
GBS=${GBS:-64}
: ${SEQ_LEN:=4096}
NNODES=${NNODES:-2}
GPUS_PER_NODE=${GPUS_PER_NODE:-8}
if [ "$TP" -gt 1 ]; then
    SP_FLAG="--sequence-parallel"
else
    SP_FLAG=""
fi
EXTRA=()
EXTRA+=(--use-distributed-optimizer)
EXTRA+=("--overlap-grad-reduce")
torchrun --nproc-per-node=${GPUS_PER_NODE} --nnodes=${NNODES} pretrain_gpt.py \
    --tensor-model-parallel-size ${TP} \
    --pipeline-model-parallel-size ${PP} \
    --context-parallel-size $CP \
    --micro-batch-size ${MBS} --global-batch-size ${GBS} \
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 \
    --num-attention-heads 32 --group-query-attention --num-query-groups 8 \
    --seq-length ${SEQ_LEN} --max-position-embeddings ${SEQ_LEN} \
    --swiglu --normalization RMSNorm --position-embedding-type rope \
    --untie-embeddings-and-output-weights --disable-bias-linear \
    --bf16 ${SP_FLAG} "${EXTRA[@]}" \
    --my-own-flag 7 --mock-data --tokenizer-type NullTokenizer --vocab-size 128256
