# at-most.sh FILE "NETWORK MACHINE" TMP: fails, and says so, where a network takes more cycles on a machine than the lines
# AT-MOST of the file that begin so allow.
models=$(dirname "$1")
grep -q "^// AT-MOST $2" "$1" || { echo "no line AT-MOST $2"; exit 1; }
grep "^// AT-MOST $2" "$1" | while read -r _ _ network machine most; do
  tir-translate --import-onnx "$models/models/$network.onnx" -o "$3.tir" &&
    tir-opt "$3.tir" --to-accel="machine=$models/machines/$machine.tir" -o "$3.accel.tir" 2> "$3.err" &&
    found=$(tir-run "$3.accel.tir" --random 1 | grep -om1 '[0-9,]* cycles' | tr -dc 0-9) &&
    [ "$found" -le "$most" ] || echo "$network on $machine: $found"
done > "$3.worse"
cat "$3.worse"
test ! -s "$3.worse"
