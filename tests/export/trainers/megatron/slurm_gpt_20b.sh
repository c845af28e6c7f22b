#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=04:00:00
DIR=$(pwd)
DATETIME=$(date +'date_%y-%m-%d_time_%H-%M-%S')
mkdir -p $DIR/logs
options=" \
    --num-layers 44 \
    --hidden-size 6144 \
    --num-attention-heads 48 \
    --seq-length 2048 \
    --max-position-embeddings 2048 \
    --tensor-model-parallel-size 8 \
    --pipeline-model-parallel-size 2 \
    --sequence-parallel \
    --micro-batch-size 1 \
    --global-batch-size 1024 \
    --bf16 \
    --use-distributed-optimizer \
    --lr 6.0e-5 \
    --min-lr 6.0e-6 \
    --lr-decay-style cosine \
    --lr-warmup-fraction .001 \
    --lr-decay-iters 430000 \
    --train-iters 500000 \
    --weight-decay 0.1 \
    --clip-grad 1.0 \
    --adam-beta1 0.9 \
    --adam-beta2 0.95 \
    --init-method-std 0.006 \
    --tokenizer-type GPTSentencePieceTokenizer \
    --tokenizer-model /models/tokenizer.model \
    --exit-duration-in-mins 230"
run_cmd="python -u ${DIR}/pretrain_gpt.py ${options}"
srun -l --container-image "image" --container-mounts "/mnt:/mnt" sh -c "${run_cmd}"
