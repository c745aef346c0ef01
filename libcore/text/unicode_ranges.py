"""Writes unicode_ranges.inc from tests/golden/tokenizer/unicode_classes.json.

Run it in the repository's root, after that file was replaced by one of a newer Unicode version:
    python3 libcore/text/unicode_ranges.py > libcore/text/unicode_ranges.inc
"""
import json

classes = json.load(open("tests/golden/tokenizer/unicode_classes.json"))
print("// Inclusive ranges of code points beyond ASCII and their class, Unicode 16.0. Written by unicode_ranges.py.")
for letter, name in (("L", "letter"), ("N", "number"), ("S", "space")):
    line = ""
    for first, last in classes[letter]:
        if first < 0x80:
            if last >= 0x80:
                raise SystemExit("a range crosses the end of ASCII")
            continue
        item = f"{{0x{first:X}, 0x{last:X}, CharClass::{name}}},"
        if len(line) + len(item) > 118:
            print(line)
            line = ""
        line += (" " if line else "") + item
    print(line)
