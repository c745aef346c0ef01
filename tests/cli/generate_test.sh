#!/bin/bash
# mtl-generate: continuations equal transformers' for all forms of prompts and output. Also checks the errors.
source "$(dirname "$0")/lib.sh" "$1"
export OMP_WAIT_POLICY=passive
MODELS=$TESTS/golden/gpt2_model
GREEDY=$TESTS/golden/generate/greedy.jsonl
cd "$WORK" || exit 1
mkdir b && cp "$MODELS"/b/* "$TESTS"/golden/tokenizer/bpe_tinyshakespeare_1000/* b

# expect_output COMMAND...: exits with 0 and prints exactly the text on stdin.
expect_output() {
  cat >"$WORK/want"
  expect_exit 0 "$@"
  diff "$WORK/want" "$WORK/out" >&2 || fail "output differs: $*"
}

# Ids from a file, from standard input and from the command line, one by one and in a batch.
sed -E 's/.*"prompt":\[([0-9,]*)\].*/\1/; s/,/ /g' "$GREEDY" >prompts.txt
sed -E 's/.*"continuation":\[([0-9,]*)\].*/\1/; s/,/ /g' "$GREEDY" >continuations.txt
a=(mtl-generate --load "$MODELS/a" --ids --greedy --max-new-tokens 40)
for flags in '' '--batch-size 5' '--batch-size 2 --threads 1' '--ignore-eos'; do
  # shellcheck disable=SC2086
  expect_output "${a[@]}" --input prompts.txt $flags <continuations.txt
done
expect_output "${a[@]}" --input "$GREEDY" <continuations.txt
"${a[@]}" <prompts.txt | cmp -s - continuations.txt || fail 'ids on standard input continue differently'
gzip -c prompts.txt | "${a[@]}" --input - | cmp -s - continuations.txt || fail 'compressed ids continue differently'
expect_exit 0 "${a[@]}" --prompt "$(sed -n 2p prompts.txt)"
sed -n 2p continuations.txt | cmp -s - out || fail '--prompt continues differently'
expect_exit 0 "${a[@]}" --prompt "$(sed -n 2p prompts.txt)" --prompt "$(sed -n 1p prompts.txt)"
sed -n '2p;1p' continuations.txt | sort >two && sort out | cmp -s - two ||
  fail 'a repeated --prompt continues differently'
[ "$(head -1 out)" = "$(sed -n 2p continuations.txt)" ] || fail 'prompts are not continued in their order'
expect_exit 0 "${a[@]}" --input prompts.txt --json-lines --logprobs --max-new-tokens 1
[ "$(wc -l <out)" -eq 5 ] || fail 'not one JSON line per prompt'
expect_text out '^\{"prompt": "274", "ids": \[151\], "stop": "length", "logprobs": \[-2\.6207[0-9]+\]\}$'
expect_output "${a[@]}" --prompt 274 --max-new-tokens 0 < <(echo)

# The end-of-document token, here the fourth token, ends a continuation unless --ignore-eos is given.
mkdir stops && cp "$MODELS"/a/* stops && chmod u+w stops/config.json
fourth=$(head -1 continuations.txt | cut -d' ' -f4)
sed -i -E "s/\"eos_token_id\": 511/\"eos_token_id\": $fourth/" stops/config.json
chmod u+w stops && rm stops/generation_config.json
stops=(mtl-generate --load stops --ids --greedy --prompt 274)
expect_output "${stops[@]}" < <(head -1 continuations.txt | cut -d' ' -f1-4)
expect_exit 0 "${stops[@]}" --json-lines
expect_text out '"stop": "eos"\}$'
expect_output "${stops[@]}" --ignore-eos --max-new-tokens 40 < <(head -1 continuations.txt)

# generation_config.json takes precedence, as in transformers. It may list multiple ids.
for ids in "$fourth" "[511, $fourth]"; do
  echo "{\"eos_token_id\": $ids}" >stops/generation_config.json
  sed -i -E 's/"eos_token_id": [0-9]+/"eos_token_id": 511/' stops/config.json
  expect_output "${stops[@]}" < <(head -1 continuations.txt | cut -d' ' -f1-4)
done
echo '{"eos_token_id": null}' >stops/generation_config.json
expect_output "${stops[@]}" --max-new-tokens 40 < <(head -1 continuations.txt)
echo '{"eos_token_id": ["a"]}' >stops/generation_config.json
expect_exit 65 "${stops[@]}"
expect_text err 'generation_config.json: eos_token_id is \["a"\], but must be a token id'

# Text output is the prompt and then its continuation. JSON lines agree with it.
text=(mtl-generate --load b --top-k 3 --max-new-tokens 8 --seed 5)
expect_exit 0 "${text[@]}" --prompt 'To be'
expect_text out '^To be.'
cp out first
expect_output "${text[@]}" --prompt 'To be' <first
expect_exit 0 "${text[@]}" --prompt 'To be' --seed 6
cmp -s out first && fail 'the seed has no effect'
printf 'To be\r\nor not\n\nto be' >lines.txt
printf '{"prompt": "To be"}\n{"prompt": "or not"}\n{"prompt": ""}\n{"prompt": "to be", "n": 1}\n' >lines.jsonl
expect_exit 0 "${text[@]}" --input lines.txt --json-lines
cp out json
[ "$(wc -l <json)" -eq 4 ] || fail 'not one JSON line per line of text'
expect_text json '^\{"prompt": "To be", "completion": ".*", "ids": \[[0-9]+(, [0-9]+)*\], "stop": "(length|eos)"\}$'
expect_output "${text[@]}" --input lines.jsonl --json-lines --batch-size 3 <json
expect_exit 0 "${text[@]}" --input lines.jsonl --batch-size 4
cp out batched
expect_output "${text[@]}" --input lines.jsonl <batched
head -c "$(wc -c <first)" batched | cmp -s - first || fail 'the first of four prompts continues differently than alone'
expect_exit 0 "${text[@]}" --prompt 'To be' --num-samples 3 --json-lines
expect_text out '"sample": 2'
[ "$(sed 's/.*"ids"//; s/"sample".*//' out | sort -u | wc -l)" -gt 1 ] || fail 'all samples are the same'
# The output is valid UTF-8 even if the tokens are not.
mtl-generate --load b --prompt 'é' --max-new-tokens 100 2>err | iconv -f UTF-8 -t UTF-8 >out || fail 'output is not UTF-8'
expect_text err 'generation continued from the last 24 tokens .* 48 positions'
mtl-generate --load b --input <(yes 'To be' | head -50) --max-new-tokens 40 2>err | head -1 >out
[ -s err ] && fail 'mtl-generate | head -1: mtl-generate reports the closed pipe'
expect_exit 0 mtl-generate --load b --prompt "$(yes 'to be' | head -60 | tr '\n' ' ')" --greedy --max-new-tokens 1
expect_text err '--prompt: the prompt has [0-9]+ tokens, .* last 48 tokens'

# Another tokenizer: numbers separated by blanks.
expect_exit 0 mtl-generate --load "$MODELS/a" --greedy --max-new-tokens 40 --prompt 274 --tokenizer-type NullTokenizer --vocab-size 512
expect_same out <(paste -d' ' prompts.txt continuations.txt | head -1)

# --dtype changes the log-probabilities.
for dtype in bfloat16 float16; do
  expect_exit 0 mtl-generate --load b --prompt x --greedy --max-new-tokens 5 --json-lines --logprobs --dtype "$dtype"
  cp out "$dtype"
done
expect_exit 0 mtl-generate --load b --prompt x --greedy --max-new-tokens 5 --json-lines --logprobs
cmp -s out bfloat16 && fail 'bfloat16 has exactly the log-probabilities of float32'
cmp -s bfloat16 float16 && fail 'float16 has exactly the log-probabilities of bfloat16'

# Reports all wrong flags together. An unknown flag may stand for one that is missing.
wrong=(mtl-generate --max-new-tokens -1 --temperature 0 --top-k -2 --top-p 1.5 --seed -3 --num-samples 0 --batch-size 0
  --threads -1 --logprobs --prompt x --input y)
expect_exit 2 "${wrong[@]}"
for what in '--load ' '--max-new-tokens -1 ' '--temperature 0 .*--greedy' '--top-k -2 ' '--top-p 1.5 ' '--seed -3 ' '--num-samples 0 ' \
  '--batch-size 0 ' '--threads -1 ' '--logprobs +needs --json-lines' '--prompt, --input '; do
  expect_text err "$what"
done
expect_exit 2 "${wrong[@]}" --tempreature 1
expect_text err 'did you mean --temperature'
! grep -qE -- '--load ' err || fail 'a missing flag is reported beside an unknown one'
expect_exit 0 mtl-generate --load b --prompt x --greedy --max-new-tokens 5
cp out want
expect_exit 0 mtl-generate --load b --prompt x --greedy --max-new-tokens 5 --top-k 5 --temperature 2 --seed 9
expect_same want out
expect_exit 2 mtl-generate --load "$MODELS/a" --prompt 'To be'
expect_text err '--load .*/a +has no tokenizer files; .*--vocab-file .*--ids'
# A tokenizer may have tokens that the model lacks, as long as no prompt produces them.
expect_exit 65 mtl-generate --load "$MODELS/a" --prompt aabb --vocab-file b/vocab.json --merge-file b/merges.txt
expect_text err '^mtl-generate: --prompt: token id [0-9]+ .* vocabulary of 512 tokens; use the tokenizer'
expect_exit 0 mtl-generate --load "$MODELS/a" --prompt 'To be' --max-new-tokens 2 --vocab-file b/vocab.json --merge-file b/merges.txt
# Models and tokenizers in the hub's cache are found by their names.
mkdir -p hub/models--org--b/{refs,snapshots/abc} && cp b/* hub/models--org--b/snapshots/abc && echo abc >hub/models--org--b/refs/main
expect_exit 0 env HF_HUB_CACHE="$WORK/hub" mtl-generate --load org/b --prompt x --greedy --max-new-tokens 5
expect_same want out
expect_exit 74 env HF_HUB_CACHE="$WORK/hub" mtl-generate --load org/absent --prompt x
expect_text err '^mtl-generate: org/absent: .*/hub .*hf download org/absent'
expect_exit 74 env HF_HUB_CACHE="$WORK/hub" mtl-generate --load org/b --tokenizer-type HuggingFaceTokenizer --tokenizer-model org/absent --prompt x
expect_text err '^mtl-generate: org/absent: .*hf download org/absent'
mkdir -p hub/models--org--bare/{refs,snapshots/abc} && echo abc >hub/models--org--bare/refs/main
cp b/vocab.json b/merges.txt hub/models--org--bare/snapshots/abc
expect_exit 74 env HF_HUB_CACHE="$WORK/hub" mtl-generate --load org/b --tokenizer-type HuggingFaceTokenizer --tokenizer-model org/bare --prompt x
expect_text err 'models--org--bare/snapshots/abc: .*no tokenizer.json; .*--tokenizer-type GPT2BPETokenizer'
expect_exit 65 "${a[@]}" --prompt '5 six'
expect_text err '--prompt: "six" is not a token id'
expect_exit 65 "${a[@]}" --prompt '5 512'
expect_text err "--prompt: token id 512 is not in the model's vocabulary of 512"
printf '{"prompt": [1]}\n{"prmpt": [2]}\n' >bad.jsonl
expect_exit 65 "${a[@]}" --input bad.jsonl
expect_text err 'bad.jsonl:2: '
expect_exit 65 mtl-generate --load b --input bad.jsonl
expect_text err 'bad.jsonl:1: the prompt is not a string'
# JSON in other layouts than JSON lines has no prompts: one message, not one for each line.
for text in '[{"prompt": "To be"}]' '[\n {"prompt": "To be"},\n {"prompt": "or"}\n]\n' '{\n "prompt": "To be"\n}\n' '{"prompt": "To be"}\r{"prompt": "or"}\r'; do
  printf '%b' "$text" >odd.json
  for input in - odd.json; do
    expect_exit 65 mtl-generate --load b --input $input <odd.json
    expect_text err ':1: .*--input -'
    [ -s out ] && fail 'continues JSON syntax'
    [ "$(wc -l <err)" -eq 1 ] || fail "reports one mistake $(wc -l <err) times"
  done
done
printf '\n["To be"]\n' >odd.txt
expect_exit 65 mtl-generate --load b --max-new-tokens 1 --input odd.txt
expect_text err 'odd.txt:2: .*\{"prompt": \.\}'
printf '\n{"prompt": [1]}\n' >odd.txt
expect_exit 65 mtl-generate --load b --max-new-tokens 1 --input odd.txt
expect_text err 'odd.txt:2: the prompt is not a string'
printf '\xef\xbb\xbf{"prompt": "To be"}\n' >mark.jsonl
expect_exit 65 mtl-generate --load b --input mark.jsonl
expect_text err 'mark.jsonl: .*byte order mark.*tail -c \+4'
expect_exit 65 mtl-generate --load b --input - <mark.jsonl
expect_text err 'standard input: .*byte order mark'
printf 'To be\nor caf\xe9\n{"prompt": "caf\xe9"}\n' >latin.txt
expect_exit 65 mtl-generate --load b --max-new-tokens 1 --input latin.txt
expect_text err 'latin.txt:2: invalid UTF-8 \(column 7\); .*iconv'
tail -1 latin.txt >latin.jsonl
expect_exit 65 mtl-generate --load b --max-new-tokens 1 --input latin.jsonl
expect_text err 'latin.jsonl:1: invalid UTF-8 \(column 16\); .*iconv'
expect_exit 65 mtl-generate --load b --max-new-tokens 1 --prompt "$(printf 'caf\xe9')"
expect_text err '--prompt: invalid UTF-8 \(column 4\)'
grep -q 'FILE' err && fail '--prompt: the remedy is for a file'
expect_exit 74 mtl-generate --load b --input absent.txt
expect_output mtl-generate --load b --input /dev/null </dev/null

# Answers line by line: does not wait for the next prompt, and continues after an invalid line.
for form in '' --json-lines; do
  # shellcheck disable=SC2086
  coproc generate { exec mtl-generate --load b --greedy --max-new-tokens 3 $form 2>/dev/null; }
  pid=$!
  exec 8<&"${generate[0]}" 9>&"${generate[1]}"
  eval "exec ${generate[1]}>&-"
  for prompt in 'be' 'or'; do
    echo "$prompt" >&9
    read -r -t 60 line <&8 || { fail "no answer while the input is open $form"; break; }
    [[ $line == *"$prompt"* ]] || fail "wrong answer: $line"
  done
  exec 9>&- 8<&-
  wait "$pid" || fail "mtl-generate exits with $? at the end of its input $form"
done
yes be | timeout 120 mtl-generate --load b --greedy --max-new-tokens 1 2>/dev/null | head -2 >out
[ "$(wc -l <out)" -eq 2 ] || fail 'no answers to endless input'
printf '{"prompt": "To be"}\n{"prompt": "or not"}\n{"prmpt": 1}\n{"prompt": "to be"}\n' >third.jsonl
expect_exit 65 mtl-generate --load b --greedy --max-new-tokens 2 --input third.jsonl --json
[ "$(wc -l <out)" -eq 3 ] || fail 'not three answers to four prompts'
expect_text err 'third.jsonl:3: '
[ "$(wc -l <err)" -eq 1 ] || fail "reports one mistake $(wc -l <err) times"
printf '{"prmpt": 1}\n' >>third.jsonl
expect_exit 65 mtl-generate --load b --greedy --max-new-tokens 2 --input third.jsonl
expect_text err 'third.jsonl: 2 of 5 lines are not prompts'

# Extreme temperatures: the lowest always draws the most likely token, and the highest draws any token.
expect_exit 0 mtl-generate --load b --prompt 'To be' --greedy --max-new-tokens 8
cp out greedy
expect_output mtl-generate --load b --prompt 'To be' --temperature 1e-308 --max-new-tokens 8 <greedy
expect_exit 0 mtl-generate --load b --prompt 'To be' --temperature 1e300 --max-new-tokens 8
for number in inf nan; do
  expect_exit 2 mtl-generate --load b --prompt 'To be' --temperature $number
  expect_text err "--temperature $number +must be a finite number"
done
finish
