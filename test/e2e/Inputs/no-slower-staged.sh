# no-slower-staged.sh FOLDER NETWORK MACHINE TMP STAGES: counts the cycles that a network takes on a machine in nests of up to so
# many stages. With more than one fails, and says so, where it takes more than in nests of one, counted by the call before. A line of
# a test has a minute: it compiles once.
net="$4.$2.$3" stages=$5
tir-translate --import-onnx "$1/models/$2.onnx" -o "$net.tir" || exit 1
tir-opt "$net.tir" --to-accel="machine=$1/machines/$3.tir max_stages=$stages" -o "$net.$stages.tir" 2> "$net.err" || exit 1
found=$(tir-run "$net.$stages.tir" --random 1 | grep -om1 '[0-9,]* cycles' | tr -dc 0-9)
[ -n "$found" ] || exit 1
echo "$found" > "$net.$stages.cycles"
[ "$stages" -eq 1 ] && exit 0
apart=$(cat "$net.1.cycles")
echo "$2 on $3: $found, with one stage $apart"
[ "$found" -le "$apart" ]
