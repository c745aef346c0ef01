#!/bin/bash
# mtl-train's command line: flags that are accepted, rejected or have no effect, and the messages about them.
source "$(dirname "$0")/lib.sh" "$1"
enter_data_folder
MODEL=$TESTS/golden/gpt2_model/b
tiny=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --max-position-embeddings 32 --seq-length 16)
words=(--vocab-file vocab.json --merge-file merges.txt)
run=(--data-path merged_text_document --split 80,10,10 --lr 1e-3 --train-iters 2 --log-interval 1 --eval-iters 0 --peak-tflops 1)

# expect_refused FLAG...: in an otherwise valid command, this flag is rejected by name, as the only problem.
expect_refused() {
  expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --save refused "$@"
  expect_text err '^mtl-train: 1 problem with the configuration$'
  expect_text err "^  $1 .*(not supported in this version|spelled|DeepSpeed)"
  [ -e refused ] && fail "$1: the refused run made a folder"
}

# expect_lines COUNT PATTERN: COUNT lines on standard error match.
expect_lines() {
  [ "$(grep -cE -- "$2" err)" -eq "$1" ] || { fail "'$2' is not printed $1 times:"; sed 's/^/    /' err >&2; }
}

# General flags.
expect_exit 0 mtl-train --help
expect_text out '^usage: mtl-train \[flags\]$'
expect_exit 0 mtl-train --version
expect_text out '^mtl-train [0-9]+\.[0-9]+'

# All problems with flags and files are reported together.
expect_exit 2 mtl-train --hidden-sise 768 --num-layers 2 --num-attention-heads 12 --hidden-size 768 --seq-length 2048 --max-position-embeddings 1024 \
  --micro-batch-size 12 --global-batch-size 190 --train-iters 2 --lr x --fp8-hybrid --data-path absent "${words[@]:0:2}" --merge-file absent.txt \
  --load absent --save vocab.json/here
expect_text err '^mtl-train: 8 problems with the configuration$'
expect_text err '^  --hidden-sise +unknown flag; did you mean --hidden-size\?$'
expect_text err '^  --global-batch-size 190 +is not a multiple of --micro-batch-size 12 .*; .*192$'
expect_text err '^  --lr x +is not a number$'
expect_text err '^  --fp8-hybrid +is not supported'
expect_text err '^  --data-path absent +there is no absent.idx or absent.bin; '
expect_text err '^  --merge-file absent.txt +does not exist'
expect_text err '^  --load absent +no such file or folder$'
expect_text err '^  --save vocab.json/here .*vocab.json is not a folder'
expect_exit 2 mtl-train
expect_exit 2 mtl-train --hidden-sise 768
expect_text <(sed -n 2p err) '^  --hidden-sise +unknown flag; did you mean --hidden-size\?$'
expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --seq-length 8 --window-size ''
expect_text err '^  --window-size +is empty; '
expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --kill-switch-path .
expect_text err '^  --kill-switch-path \. +is a folder'
printf -v long '%300s' ''
expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --kill-switch-path "${long// /x}"
expect_text err '^  --kill-switch-path x+ +can never be found: File name too long; choose another file name'
expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --kill-switch-path vocab.json/off --log-jsonl vocab.json/log --tensorboard-dir vocab.json/events --wandb-project p --wandb-save-dir vocab.json/wandb
expect_text err '^  --kill-switch-path vocab.json/off +can never be found: Not a directory; choose another file name'
for flag in '--log-jsonl vocab.json/log' '--tensorboard-dir vocab.json/events' '--wandb-save-dir vocab.json/wandb'; do
  expect_lines 1 "^  $flag +cannot .* because .*vocab.json is not a folder"
done
expect_exit 2 mtl-train
for flag in train-iters lr seq-length data-path vocab-file num-layers hidden-size num-attention-heads max-position-embeddings; do
  expect_lines 1 "^  --$flag(, --merge-file)? +(is|are) required"
done
expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --seq-length 33 --global-batch-size 0
expect_text err '^  --seq-length 33 +is longer than the 32 positions of the model; .*--max-position-embeddings$'
expect_text err '^  --global-batch-size 0 +must be from 1 to 2147483647$'

# A command without other faults than missing inputs ends as the other programs do. A dry run, perhaps for another
# machine, plans without token files, and checks those that it sees.
for input in '--data-path absent' '--load absent' '--merge-file absent'; do
  expect_exit 74 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" $input
  expect_text err "^mtl-train: $input: (there is no absent|does not exist; |no such file or folder)"
done
expect_exit 74 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --data-path absent --merge-file absent.txt
expect_text err '^mtl-train: 2 problems with the files$'
expect_exit 0 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --data-path absent --dry-run
expect_text err '^mtl-train: warning: --data-path absent was not checked: there is no absent.idx or absent.bin; make '
cp merged_text_document.idx cut.idx && head -c 10 merged_text_document.bin >cut.bin
expect_exit 65 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --data-path cut --dry-run
expect_text err '^mtl-train: cut.bin: '
expect_exit 0 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --split 949,50,1 --eval-iters 1 --dry-run
expect_text err '^mtl-train: warning: merged_text_document: --split 949,50,1 leaves no sequences for test, .* The run would'
expect_exit 74 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --data-path merged
expect_text err 'there is no merged.idx or merged.bin; did you mean merged_text_document\?$'
expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --log-jsonl . --tensorboard-dir vocab.json --num-attention-heads 3
expect_text err '^mtl-train: 3 problems'

expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --json --keep-last 2 --save-interval 1
expect_lines 1 '^  --json +needs '
expect_exit 0 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --keep-last 2 --save-interval 1 --no-save-optim --dry-run
for flag in --keep-last --save-interval --no-save-optim; do expect_text err "^mtl-train: $flag has no effect without --save$"; done
expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --eval-iters -1
expect_text err '^  --eval-iters -1 +must be at least 0, which turns validation off$'
expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --no-position-embedding
expect_text err '^  --no-position-embedding +is for models without learned positions; use --position-embedding-type rope'
for words_of_data in 'merged_text_document 0.5 merged_text_document 0.5' merged_text_document,merged_text_document; do
  # shellcheck disable=SC2086 # words
  expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --data-path $words_of_data
  expect_text err '^  --data-path .* (a weight comes before its data set|blanks, not commas, separate data sets)'
done
expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --tokenizer-type Llama3Tokenizer
expect_text err '^  --tokenizer-type Llama3Tokenizer +is unknown; choose one of .*HuggingFaceTokenizer --tokenizer-model'
expect_exit 0 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --vocab-size 5 --tokenizer-model vocab.json
expect_lines 1 "^mtl-train: --vocab-size has no effect without --tokenizer-type TikTokenizer or NullTokenizer$"
expect_lines 1 "^mtl-train: --tokenizer-model has no effect with --tokenizer-type GPT2BPETokenizer or NullTokenizer$"

# One mistake is one problem, also if it breaks several rules.
for mistake in '--num-query-groups 3 --num-attention-heads 4' '--recompute-activations --recompute-granularity full' \
  '--train-iters 9223372036854775807 --global-batch-size 2' '--lr= 5' '--save= x' '--train-samples 5 --lr-decay-iters 3' \
  '--lr-decay-style WSD --lr-wsd-decay-samples 5' '--swiglu --squared-relu' '--data-args-path absent' \
  '--grad-reduce-in-bf16 --main-grads-dtype fp32' '--main-grads-dtype bf16 --accumulate-allreduce-grads-in-fp32'; do
  # shellcheck disable=SC2086
  expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" $mistake
  expect_text err '^mtl-train: 1 problem '
done
# What follows from a refused value or a misspelled name is not reported.
expect_exit 2 mtl-train --lr abc --num-layers -3 --data-path --seq-lenght 16 --hidden-size 16 --num-attention-heads 2 \
  --max-position-embeddings 32 "${words[@]}" --train-iters 1
expect_text err '^mtl-train: 4 problems'
for flag in '--lr abc' '--num-layers -3' --data-path --seq-lenght; do expect_lines 1 "^  $flag +"; done
expect_exit 2 mtl-train "${tiny[@]}" "${run[@]}" --tokenizer-type NullTokenizer --vocab-size 0
expect_text err '^mtl-train: 1 problem '

# Every flag of Megatron-LM is answered: it acts, it is refused with a reason, or it is acknowledged.
mtl-train --list-foreign-flags >foreign
[ "$(wc -l <foreign)" -gt 500 ] || fail '--list-foreign-flags is too short'
! grep -qvP '^(refused|acknowledged)\t--[^\t]+\t[^\t]{20,}\t[^\t]+$' foreign || fail "--list-foreign-flags: $(grep -vP '^(refused|acknowledged)\t--[^\t]+\t[^\t]{20,}\t[^\t]+$' foreign | head -1)"
mtl-train --list-flags | cut -d' ' -f1 >own
for flag in $(cut -f2 foreign); do ! grep -qxF -- "$flag" own || fail "$flag is declared, and is listed as another tool's"; done
expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --test-mode --cp-comm-type p2p a2a --your-arg-name1 x
expect_text err '^mtl-train: 3 problems'
expect_lines 0 'unknown flag'

# If Megatron's flags request unsupported features, they are rejected with a reason. Flags without a reason are unknown.
expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --moe-router-dtype fp32 --fp8-quantizer-factory x \
  --main-grads-dtype fp16 --decoder-seq-length 32 --zzz-dim 16 --learning-rate 1
expect_text err '^mtl-train: 6 problems'
[ "$(sed -n 2,3p err | grep -c 'unknown flag')" -eq 2 ] || fail 'unknown flags are not reported first'
expect_text err '^  --learning-rate +unknown flag; did you mean --lr\?'
expect_text err '^  --moe-router-dtype +mixtures of experts are not supported'
expect_text err '^  --fp8-quantizer-factory +is not supported in this version; use --bf16, --fp16'
expect_text err '^  --main-grads-dtype fp16 +is not supported in this version'
expect_text err '^  --decoder-seq-length 32 +is spelled --seq-length in mtl-train'
expect_exit 0 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --sequence-parallel --no-pipeline-parallel --disable-jit-fuser \
  --main-grads-dtype fp32
for flag in --sequence-parallel --no-pipeline-parallel --disable-jit-fuser; do expect_lines 1 "^mtl-train: $flag "; done

ln -s nowhere dangling
expect_exit 74 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --save dangling
expect_text err '^mtl-train: dangling is a symbolic link to nowhere, which does not exist; '

# If a faulty file is the only problem, it has its own exit code. Otherwise it is listed with the other problems.
head -c 100 merged_text_document.idx >cut.idx && cp merged_text_document.bin cut.bin
expect_exit 65 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --data-path cut
expect_text err '^mtl-train: cut.idx: .*; re-run mtl-preprocess'
expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --data-path cut --fp8-hybrid
expect_text err '^  --data-path cut +cut.idx: '
cp cut.idx cut2.idx && cp cut.bin cut2.bin
expect_exit 65 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --data-path cut cut2
expect_text err '^mtl-train: 2 problems with the files$'
expect_text err '^  --data-path cut2 +cut2.idx: '
expect_exit 65 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --split 969,30,1 --eval-iters 1
expect_text err 'merged_text_document: --split 969,30,1 leaves no sequences for test, .* 162 sequences; '
expect_exit 0 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --split 969,30,1

# Unsupported flags are rejected by name.
for flag in --fp8-hybrid --fp16-lm-cross-entropy --use-custom-fsdp --multi-latent-attention --apply-layernorm-1p --distribute-saved-activations \
  --deepspeed; do
  expect_refused "$flag"
done
for flag in '--muon-tp-mode blockwise' '--train-weighted-split-paths a b' \
  '--deepspeed_config ds.json' '--num-experts 4' '--model-parallel-size 2' '--batch-size 4' \
  '--exp-avg-dtype fp8' '--load-tag x' '--embedding-init-method-std 0.1'; do
  # shellcheck disable=SC2086
  expect_refused $flag
done
expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --deepspeed
expect_text err '^  --deepspeed +DeepSpeed.s engine is not supported; use --micro-batch-size, .*--zero-stage'

# The refusal has an answer to each key of DeepSpeed's file. The flags that it prints are a valid command.
cat >ds_config.json <<'END'
{"train_micro_batch_size_per_gpu": 2, "train_batch_size": 8, "gradient_clipping": 0.7, "bf16": {"enabled": true},
 "optimizer": {"type": "AdamW", "params": {"lr": 6e-4, "betas": [0.8, 0.99], "eps": 1e-7, "weight_decay": "auto"}},
 "scheduler": {"type": "WarmupCosineLR", "params": {"warmup_num_steps": 1, "total_num_steps": 1e2}},
 "zero_optimization": {"stage": 2, "overlap_comm": true, "reduce_bucket_size": 5e6, "sub_group_size": 1e9,
                       "offload_optimizer": {"device": "cpu", "pin_memory": true}},
 "steps_per_print": 5, "hidden_size": 64}
END
for flags in '--deepspeed_config ds_config.json' --deepspeed-config=ds_config.json '--deepscale_config ds_config.json' \
  '--deepspeed ds_config.json --fp32-residual-connection'; do
  # shellcheck disable=SC2086
  expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" $flags
  expect_text err '^  --deep.*DeepSpeed.s engine is not supported; use --micro-batch-size, '
  expect_text err '^    train_batch_size: 8 +--global-batch-size 8$'
  expect_text err '^    zero_optimization.sub_group_size: 1000000000.0 +nothing to choose: '
  expect_text err '^    optimizer.params.weight_decay: "auto" +set by --weight-decay VALUE; "auto" leaves it to '
  expect_text err '^    hidden_size: 64 +unknown to mtl-train$'
done
read -ra printed < <(sed -n 's/^    together: //p' err)
[ ${#printed[@]} -eq 32 ] || fail "the flags for ds_config.json are ${printed[*]}"
expect_exit 0 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" "${printed[@]}" --dry-run --world-size 4
expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --deepspeed_config absent.json --lr -1
expect_text err '^mtl-train: 2 problems with the configuration$'
expect_text err '^  --deepspeed_config absent.json +DeepSpeed.s engine is not supported; use '
expect_text err '^    absent.json: cannot open: No such file or directory; name a file of JSON, without comments, '
echo 'deepspeed_config = ds_config.json' >deepspeed.conf
expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --config deepspeed.conf
expect_text err '^  --deepspeed_config ds_config.json +DeepSpeed.s .* configuration file \(deepspeed.conf:1\)$'
expect_text err '^    train_batch_size: 8 +--global-batch-size 8$'
expect_exit 0 mtl-topo plan "${tiny[@]}" --vocab-size 512 --global-batch-size 8 --hardware H100 --world-size 2 \
  --deepspeed --deepspeed_config absent.json
expect_text err '^mtl-topo plan: --deepspeed, --deepspeed_config are set aside, '

# A sequence that context-parallel ranks cannot share is refused with lengths that they can.
long=("${tiny[@]}" "${words[@]}" "${run[@]}" --seq-length 18 --dry-run)
expect_exit 0 mtl-train "${long[@]}" --seq-length 24 --context-parallel-size 2
expect_exit 2 mtl-train "${long[@]}" --context-parallel-size 2
expect_text err '^  --context-parallel-size 2 +cannot divide --seq-length 18 into 4 equal chunks, two for each rank; .* multiple of 4$'
expect_exit 2 mtl-train "${long[@]}" --context-parallel-size 3 --tensor-model-parallel-size 4 --sequence-parallel
expect_text err '^  --sequence-parallel +cannot divide --seq-length 18 evenly into 12 parts; .* multiple of 12$'
expect_exit 2 mtl-train "${long[@]}" --context-parallel-size 2 --cp-comm-type a2a
expect_text err '^  --cp-comm-type a2a +is unknown; choose one of all_gather, p2p$'
expect_exit 2 mtl-train "${long[@]}" --context-parallel-size 3 --world-size 4
expect_text err '--context-parallel-size 3 +need a multiple of 3 ranks, but there are 4'

# Logging that mtl-train does not have is acknowledged: it does not stop a run.
expect_exit 0 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --wandb-flag-of-another-version x y \
  --one-logger-project p --enable-one-logger --log-progress --tensorboard-log-interval 10 --timing-log-level 2
for flag in --wandb-flag-of-another-version --one-logger-project --enable-one-logger; do
  expect_lines 1 "^mtl-train: $flag has no effect; .*--log-jsonl, --tensorboard-dir and --wandb-project"
done
for flag in --log-progress --tensorboard-log-interval --timing-log-level; do expect_lines 1 "^mtl-train: $flag has no effect"; done

# If a flag has no effect, this is reported once and the run does not change.
expect_exit 0 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --log-jsonl plain.jsonl
grep -qvE 'without --save the trained model is not kept|: training [0-9,]+ parameters' err && fail 'a valid run prints to standard error'
expect_exit 0 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --log-jsonl more.jsonl --num-workers 2 --DDP-impl local --num-workers 4 \
  --distributed-backend nccl --attention-softmax-in-fp32 --accumulate-allreduce-grads-in-fp32 --no-query-key-layer-scaling --use-flash-attn \
  --use-precision-aware-optimizer --fp32-residual-connection --loss-scale 128 --no-load-rng --use-cpu-initialization --empty-unused-memory-level 1 --timing-log-level 0 --timing-log-option minmax --optimizer adam \
  --normalization LayerNorm --position-embedding-type learned_absolute --zero-stage 0 --no-bias-gelu-fusion --openai-gelu \
  --log-timers-to-tensorboard --data-impl mmap --tensorboard-log-interval 1 --tensor-model-parallel-size 1 --pipeline-model-parallel-size 1
for flag in --num-workers --DDP-impl --distributed-backend --attention-softmax-in-fp32 --accumulate-allreduce-grads-in-fp32 --use-flash-attn \
  --use-precision-aware-optimizer --fp32-residual-connection --loss-scale --no-query-key-layer-scaling --no-load-rng --use-cpu-initialization --empty-unused-memory-level --timing-log-option --data-impl; do
  expect_lines 1 "^mtl-train: $flag "
done
expect_lines 1 '^mtl-train: --data-impl has no effect, because '
losses() { grep -o '"lm_loss": [^,]*' "$1"; }
[ "$(losses plain.jsonl | wc -l)" -eq 2 ] || fail 'not two steps in plain.jsonl'
[ "$(losses plain.jsonl)" = "$(losses more.jsonl)" ] || fail 'flags without an effect changed the losses'

# Flags that repeat the model's attention shape are accepted. Dropout is rounded to the resolution of its random
# numbers. It is rejected if this would give 0 or 1.
expect_exit 0 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --kv-channels 8 --num-query-groups 2 --group-query-attention
expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --attention-dropout 0.001 --hidden-dropout 1e-7
expect_text err '^  --attention-dropout 0.001 +would be rounded to 0, because dropout uses multiples of 1/256;'
expect_text err '^  --hidden-dropout 1e-07 +would be rounded to 0, because dropout uses multiples of 1/65536;'
expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --attention-dropout 0.999
expect_text err '^  --attention-dropout 0.999 +would be rounded to 1, '
expect_exit 0 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --attention-dropout 0.01
expect_lines 1 '^mtl-train: --attention-dropout 0.01 is rounded to 3/256 = 0.01171875; dropout uses multiples of 1/256$'
expect_exit 0 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --attention-dropout 0.1 --hidden-dropout 0.1
expect_lines 0 'is rounded to'

# If a warm-up leaves no steps for the decay, the error gives the flag and uses its unit.
expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --train-iters 3 --lr-warmup-iters 75
expect_text err '^  --lr-warmup-iters 75 +must be shorter than the decay, which takes 3 iterations; .*--lr-decay-iters$'

# A split's weights are decimal numbers.
for split in -1,2,0 nan,1,1 1e3,1,1; do
  expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --split "$split"
  expect_text err "^  --split $split +\"[-ne]\" is not allowed in weights; write them as 969,30,1$"
done

# Rejects sizes whose products exceed 64 bits.
expect_exit 2 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --tensor-model-parallel-size 4294967296 --pipeline-model-parallel-size 4294967296
expect_text err '^  --pipeline-model-parallel-size 4294967296 +must be from 1 to 65536$'
huge=(--seq-length 2147483647 --max-position-embeddings 2147483647 --micro-batch-size 2147483647 --num-attention-heads 1048576 --hidden-size 16777216)
expect_exit 2 timeout 60 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" "${huge[@]}" --num-layers 4096 --dry-run
expect_text err '^  --micro-batch-size, --seq-length, --num-attention-heads +multiply to more than 64 bits can count; choose smaller sizes$'

# --quiet: prints only warnings and still writes the files.
expect_exit 0 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --quiet --num-workers 2 --log-jsonl quiet.jsonl
[ -s out ] || grep -qv 'warning: without --save the trained model is not kept' err &&
  fail '--quiet prints more than warnings'
[ "$(losses plain.jsonl)" = "$(losses quiet.jsonl)" ] || fail '--quiet changed the losses'

# The command line that trained CodeParrot. Later flags reduce its sizes.
codeparrot=(--tensor-model-parallel-size 1 --pipeline-model-parallel-size 1
  --num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 --max-position-embeddings 1024
  --micro-batch-size 12 --global-batch-size 192 --lr 0.0005 --train-iters 150000 --lr-decay-iters 150000 --lr-decay-style cosine
  --lr-warmup-iters 2000 --weight-decay .1 --adam-beta2 .999 --fp16 --log-interval 10 --save-interval 2000 --eval-interval 200 --eval-iters 10
  --vocab-file vocab.json --merge-file merges.txt --save ckpt --load ckpt --data-path merged_text_document --tensorboard-dir experiments/tensorboard)
small=("${tiny[@]}" --micro-batch-size 2 --global-batch-size 4 --train-iters 4 --lr-decay-iters 4 --lr-warmup-iters 1 --log-interval 2
  --eval-interval 2 --eval-iters 1 --split 80,10,10 --peak-tflops 1)
expect_exit 0 mtl-train "${codeparrot[@]}" "${small[@]}"
expect_text err '^mtl-train: ckpt contains no checkpoints yet: starting from iteration 0$'
expect_text out '^ \[.*\] iteration        4/       4 \| consumed samples:           16 \|'
expect_text out '^ validation loss at iteration 4 on test set \| lm loss value: '
[ -f ckpt/iter_0000004/manifest.json ] || fail 'no checkpoint of iteration 4'
compgen -G 'experiments/tensorboard/events.out.tfevents.*' >compgen || fail 'no TensorBoard events'
expect_exit 0 mtl-train "${codeparrot[@]}" "${small[@]}"
expect_text err '^mtl-train: already complete: 4 of 4 iterations are done$'
expect_exit 0 mtl-train "${codeparrot[@]}" "${small[@]}" --train-iters 2 --lr-decay-iters 2
expect_text err '^mtl-train: already complete: 4 iterations are done, more than the 2 requested$'
expect_exit 2 mtl-train "${codeparrot[@]}" "${small[@]}" --save none --load none --bf16
expect_text err '^  --fp16 +excludes --bf16; use only one of them$'
expect_lines 1 '^  --'
expect_exit 2 mtl-train "${codeparrot[@]}" "${small[@]}" --save none --load none --exit-on-missing-checkpoint
expect_text err '^  --exit-on-missing-checkpoint +.*--load none contains no checkpoint; '
! grep -q 'starting from iteration 0' err || fail '--exit-on-missing-checkpoint: reports a start'

# The 345M script's command line is accepted.
script345=(--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024
  --micro-batch-size 4 --global-batch-size 16 --lr 0.00015 --train-iters 500000 --lr-decay-iters 320000 --lr-decay-style cosine
  --min-lr 1.0e-5 --weight-decay 1e-2 --lr-warmup-fraction .01 --clip-grad 1.0 --data-path merged_text_document
  --vocab-file vocab.json --merge-file merges.txt --data-impl mmap --split 949,50,1 --log-interval 100 --save-interval 10000
  --eval-interval 1000 --eval-iters 10 --distributed-backend nccl --save big --load big)
expect_exit 0 mtl-train "${script345[@]}" --tensor-model-parallel-size 2 --pipeline-model-parallel-size 1 --sequence-parallel --fp16 --dry-run
expect_text out '^  bytes per parameter on a rank +18$'
expect_exit 0 mtl-train "${script345[@]}" --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel --dry-run --world-size 8
expect_text out '^  the most, [0-9,]+ bytes: ranks 0-3$'

# Ranks: mismatches are reported before any rank starts.
expect_exit 2 mtl-train "${script345[@]}" --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2
expect_lines 1 '^  --tensor-model-parallel-size 2 x --pipeline-model-parallel-size 2 +need a multiple of 4 ranks, but there is 1; start the run with mpirun -n 4'
expect_exit 2 mtl-train "${script345[@]}" --tensor-model-parallel-size 3 --overlap-param-gather --world-size 3
for flag in '--num-attention-heads 16' '--ffn-hidden-size 4096' --overlap-param-gather --world-size; do expect_text err "^  $flag +(is|needs) "; done
expect_exit 0 mtl-train "${script345[@]}" --pipeline-model-parallel-size 5 --dry-run --global-batch-size 20
expect_exit 2 mtl-train "${script345[@]}" --pipeline-model-parallel-size 25 --dry-run --global-batch-size 20
expect_text err '^  --num-layers 24 .*--pipeline-model-parallel-size '
for flag in --nproc_per_node --nproc-per-node --nnodes --node_rank --master_addr --master_port; do
  expect_exit 2 mtl-train "${script345[@]}" $flag 8
  expect_text err "^  $flag 8 +is a flag of torchrun, which cannot start this program; start its ranks with mpirun -n N"
done
for pair in nlayers:num-layers n-layers:num-layers nheads:num-attention-heads sequence-length:seq-length learning-rate:lr; do
  expect_exit 2 mtl-train "${script345[@]}" "--${pair%:*}" 3
  expect_text err "^  --${pair%:*} +unknown flag; did you mean --${pair#*:}\?$"
done
expect_exit 2 env WORLD_SIZE=8 RANK=0 LOCAL_RANK=0 MASTER_ADDR=x MASTER_PORT=1 mtl-train "${script345[@]}"
expect_text err 'mpirun -n 8 mtl-train'
# A plan needs no ranks. It is printed in a Slurm batch script, and once under any launcher.
expect_exit 0 env SLURM_NTASKS=8 SLURM_PROCID=0 mtl-train "${script345[@]}" --dry-run
expect_exit 0 env WORLD_SIZE=8 RANK=0 mtl-train "${script345[@]}" --dry-run
expect_text out '354,823,168'
expect_exit 0 env WORLD_SIZE=8 RANK=1 mtl-train "${script345[@]}" --dry-run
[ ! -s out ] || fail 'a second plan was printed'
expect_exit 0 mtl-train "${script345[@]}" --dry-run --json
expect_text out '"parameters": 354823168,'

# --dry-run: plans GPT-2 without data. With a padded vocabulary, 345M has the same parameter count as in Megatron,
# 354,871,296.
shape=(--num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 32)
expect_exit 0 mtl-train "${shape[@]}" "${words[@]}" --dry-run
expect_text out '^  parameters +124,439,808$'
expect_text out '32,768 tokens$'
expect_exit 0 mtl-train "${shape[@]}" "${words[@]}" --dry-run --json
for key in '"version": 1,' '"parameters": 124439808,' '"tokens_per_step": 32768,' '"checkpoint_bytes": 1493277696,' '"optimizer": [0-9]+,'; do
  expect_text out "$key"
done
expect_exit 0 mtl-train "${script345[@]}" --dry-run --json --tokenizer-type NullTokenizer --vocab-size 50304
expect_text out '"parameters": 354871296,'

# A preset brings the size of its vocabulary and its sequence length.
expect_exit 0 mtl-train --model gpt2-345m --dry-run --json
expect_text out '"parameters": 354823168,'
expect_text out '"tokens_per_step": 1024,'
expect_exit 0 mtl-train --model gpt2-345m --vocab-size 50304 --dry-run --json
expect_text out '"parameters": 354871296,'
expect_exit 2 mtl-train --model gpt2-345m --lr 1e-3 --train-iters 1 --data-path merged_text_document
expect_text err '^  --vocab-file, --merge-file +are required'
expect_exit 0 mtl-topo --world-size 2 --model gpt2-345m --format json
expect_text out '"parameters": 354823168,'

expect_exit 2 mtl-train --model gpt2-345m --max-position-embeddings 64 --dry-run
expect_text err '^  --model gpt2-345m +sets --seq-length 1024, which is longer than the 64 positions .*--seq-length'
# Gradients sharded over four ranks: 4 bytes fewer per parameter, three quarters of them, less the working memory.
expect_exit 0 mtl-train --model gpt2-345m --world-size 4 --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads --dry-run
expect_text out '^  main gradients +fp32, 4 bytes per parameter, sharded over 4 ranks$'
expect_exit 2 mtl-train --model gpt2-345m --world-size 4 --pipeline-model-parallel-size 2 --zero-stage 2 --pipeline-schedule zb-h1 --dry-run
expect_text err '^  --zero-stage 2 +cannot be combined with --pipeline-schedule zb-h1, .*--zero-stage 1'
expect_exit 2 mtl-train --model gpt2-345m --world-size 4 --pipeline-model-parallel-size 2 --zero-stage 3 --pipeline-schedule zb-h1 --dry-run
expect_same <(grep -oE -- 'use --zero-stage [0-9]' err) <(echo 'use --zero-stage 1')
expect_exit 2 mtl-train --model gpt2-345m --world-size 4 --zero-stage 1 --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads --dry-run
expect_text err '^  --zero-stage 1 +is not --data-parallel-sharding-strategy optim_grads, which is --zero-stage 2; '
expect_exit 0 mtl-train --model gpt2-345m --num-layers 2 --zero-stage 1 --step-batch-size-schedule '0:2' --dump-config
expect_text out '^model = gpt2-345m +# command line$'
# A value that another flag implies is not in the configuration, where it would remain without that flag.
expect_text out '^# hidden-size = +# default$'
expect_text out '^use-distributed-optimizer = false +# default$'
expect_text out '^# global-batch-size = +# default$'
expect_text out '^# pipeline-schedule = +# default$'
# Beside a loaded model, a preset is one mistake, of the flag that was given.
expect_exit 2 mtl-train --model gpt2-345m --load "$MODEL" --dry-run
[ "$(grep -c '^  ' err)" -eq 1 ] || fail "a preset beside another model is not one problem: $(cat err)"
expect_text err '^  --model gpt2-345m +sets --num-layers 24 \(the loaded model has [0-9]+\), .*--max-position-embeddings 1024 '

# --dump-config prints where every value comes from, and --config can read the result.
expect_exit 0 mtl-train "${tiny[@]}" "${words[@]}" "${run[@]}" --dump-config
expect_text out '^hidden-size = 16 +# command line$'
expect_text out '^clip-grad = 1 +# default$'
expect_text out '^# load = +# default$'
cp out run.conf
expect_exit 0 mtl-train --config run.conf --log-jsonl again.jsonl
[ "$(losses plain.jsonl)" = "$(losses again.jsonl)" ] || fail 'a dumped configuration changed the losses'
expect_exit 0 mtl-train --config run.conf --lr 3e-4 --dump-config
expect_text out '^hidden-size = 16 +# run.conf:[0-9]+$'
expect_text out '^lr = 0.0003 +# command line$'
printf 'hidden-sise = 3\nfp8-hybrid\n' >bad.conf
expect_exit 2 mtl-train --config bad.conf "${tiny[@]}" "${words[@]}" "${run[@]}"
expect_text err '^  --hidden-sise +unknown flag; did you mean --hidden-size\? \(bad.conf:1\)$'
expect_text err '^  --fp8-hybrid +is not supported .* \(bad.conf:2\)$'

# A loaded model determines the architecture. Flags must agree with it.
printf '{"text": "5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23"}\n' >ids.jsonl
expect_exit 0 mtl-preprocess --input ids.jsonl --output-prefix ids --tokenizer-type NullTokenizer --vocab-size 1000
null=(--data-path ids_text_document --split 100,0,0 --lr 1e-3 --train-iters 1 --log-interval 1 --peak-tflops 1 --tokenizer-type NullTokenizer --vocab-size 1000)
expect_exit 0 mtl-train "${tiny[@]}" "${null[@]}"
expect_text out 'iteration        1/       1 '
expect_exit 0 mtl-train --load "$MODEL" --seq-length 16 "${null[@]}"
expect_text err '^mtl-train: starting from the weights of the Hugging Face folder '
expect_exit 0 mtl-train --load "$MODEL" --seq-length 16 --num-layers "$(sed -nE 's/.*"n_layer": ([0-9]+).*/\1/p' "$MODEL/config.json")" "${null[@]}"
# A tokenizer may have tokens that the model lacks, as long as the data do not.
expect_exit 0 mtl-train --load "$MODEL" --seq-length 16 "${null[@]}" --vocab-size 1001
expect_exit 2 mtl-train --load "$MODEL" --seq-length 2000 --num-layers 99 --hidden-size 1000 "${null[@]}"
expect_text err '^  --num-layers 99 +the loaded model has [0-9]+; '
expect_text err '^  --hidden-size 1000 +the loaded model has [0-9]+; '
expect_text err '^  --seq-length 2000 +is longer than the [0-9]+ positions of the model; '
! grep -q 'starting from' err || fail 'reports the start of a run before it refuses it'
expect_exit 65 mtl-train "${tiny[@]}" "${null[@]}" --vocab-size 20
expect_text err 'ids_text_document: the token id 20, .* is not in the vocabulary of 20; '
expect_exit 2 mtl-train "${tiny[@]}" "${null[@]:0:10}" --tokenizer-type NullTokenizer
expect_text err '^  --vocab-size +is required by --tokenizer-type NullTokenizer$'
expect_exit 2 mtl-train "${tiny[@]}" "${null[@]:0:10}" --tokenizer-type BertWordPieceCase
expect_text err '^  --tokenizer-type BertWordPieceCase +is not supported'

finish
