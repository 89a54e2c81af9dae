# no-slower-staged.sh FOLDER NETWORK MACHINE TMP: fails, and says so, where a network takes more cycles on a machine in nests of up
# to eight stages than in nests of one.
cycles() {
  tir-opt "$4.tir" --to-accel="machine=$1/machines/$3.tir max_stages=$5" -o "$4.$5.tir" 2> "$4.err" &&
    tir-run "$4.$5.tir" --random 1 | grep -om1 '[0-9,]* cycles' | tr -dc 0-9
}
tir-translate --import-onnx "$1/models/$2.onnx" -o "$4.tir" || exit 1
apart=$(cycles "$@" 1)
found=$(cycles "$@" 8)
echo "$2 on $3: $found, with one stage $apart"
[ "$found" -le "$apart" ]
