#!/bin/bash
# The commands in mtl-preprocess's messages turn Parquet, Arrow and Feather files, and folders of Hugging Face's
# datasets, into JSON lines with the same texts. Skipped without pyarrow for MTL_PYTHON (default: python3).
source "$(dirname "$0")/lib.sh" "$1"
python=${MTL_PYTHON:-python3}
"$python" -c 'import pyarrow' 2>"$WORK/why" || { echo "skipped: $python: $(tail -1 "$WORK/why")"; exit 77; }
cd "$WORK" || exit 1
"$python" - <<'END'
import datetime, json, os
import pyarrow as pa, pyarrow.feather, pyarrow.parquet
texts = ['Gr\u00fc\u00dfe\n"x" \'y\'', 'two', '', '\U0001f600 four'] * 500
columns = {'text': texts, 'n': list(range(2000)), 'bytes': [b'\xff\x00'] * 2000, 'at': [datetime.datetime(2024, 1, 1)] * 2000}
table = pa.table(columns)
with open('want.jsonl', 'w') as f:
    for text in texts: print(json.dumps({'text': text}), file=f)
pa.parquet.write_table(table, 'x.parquet', row_group_size=300)
with pa.OSFile('stream.arrow', 'wb') as f, pa.ipc.new_stream(f, table.schema) as w: w.write_table(table, max_chunksize=300)
with pa.OSFile('file.arrow', 'wb') as f, pa.ipc.new_file(f, table.schema) as w: w.write_table(table, max_chunksize=300)
pa.feather.write_feather(table, 'v2.feather')
try:
    pa.feather.write_feather(table.select(['text', 'n']), 'v1.feather', version=1)
except Exception:
    pass  # releases that no longer write it
os.mkdir('dataset')
for i in range(2):
    part = table.slice(1000 * i, 1000)
    with pa.OSFile(f'dataset/data-{i:05}-of-00002.arrow', 'wb') as f, pa.ipc.new_stream(f, part.schema) as w: w.write_table(part)
END
flags=(--append-eod --vocab-file "$SHARE/gpt2/vocab.json" --merge-file "$SHARE/gpt2/merges.txt" --quiet)
expect_exit 0 mtl-preprocess --input want.jsonl --output-prefix want "${flags[@]}"
converted=0
for input in x.parquet stream.arrow file.arrow v2.feather v1.feather dataset; do
  [ -e $input ] || continue
  expect_exit "$([ -d $input ] && echo 74 || echo 65)" mtl-preprocess --input $input --output-prefix got "${flags[@]}"
  command=$(grep -oE 'python3 -c ".*".* \| \.\.\. --input -' err | sed "s/'FILE'/'$input'/; s/ | .*//; s|^python3|'$python'|")
  [ -n "$command" ] || { fail "$input: the message has no command"; continue; }
  eval "$command" 2>warnings | mtl-preprocess --input - --output-prefix got "${flags[@]}" || fail "$input: $command"
  for ending in bin idx; do expect_same got_text_document.$ending want_text_document.$ending; done
  rm -f got_text_document.*
  converted=$((converted + 1))
done
[ $converted -ge 5 ] || fail "only $converted formats were converted"
mkdir several && touch several/dataset_dict.json
expect_exit 74 mtl-preprocess --input several --output-prefix got "${flags[@]}"
expect_text err 'use one of its folders, such as several/train$'
finish
