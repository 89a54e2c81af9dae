# What bash reads before each RUN line of a lit test. cargo lit puts LIMIT, ROOT, FOLDER and PROGRAM
# before it.

# The line again, under the time limit.
if [ -z "$LIT_LIMITED" ] && command -v timeout > /dev/null; then
  export LIT_LIMITED=1
  exec timeout --kill-after=1 "$LIMIT" "$BASH" -c "$BASH_EXECUTION_STRING"
fi
unset BASH_ENV LIT_LIMITED TIR_LIT_BATCH
set -o pipefail
cd "$ROOT" || exit 2

# The head of each line: a line of a test that failed leaves a file, and those behind it do nothing.
lit_line() {
  lit_open=$FOLDER/$1.open
  [ ! -e "$lit_open" ] || exit 0
  : > "$lit_open"
  # Each command of a line must succeed, those of loops too.
  set -e
  trap '[ $? != 0 ] || rm -f "$lit_open"' EXIT
}

filecheck() { "$PROGRAM" --filecheck "$@"; }
FileCheck() { filecheck "$@"; }

# Expects a failure that is no crash; `not --crash` expects a crash: a signal, or a panic of Rust.
not() {
  local crash=
  if [ "$1" = --crash ]; then
    crash=1
    shift
  fi
  local code=0
  "$@" || code=$?
  if [ "$code" = 101 ] || [ "$code" -gt 128 ]; then
    [ -n "$crash" ] && return 0
    local what="was killed by signal $((code - 128))"
    [ "$code" = 101 ] && what="panicked (exit code 101)"
    echo "'$1' $what, which 'not' does not accept as a failure" >&2
    return 1
  fi
  if [ -n "$crash" ]; then
    echo "'$1' ended with exit code $code, but 'not --crash' expects a crash" >&2
    return 1
  fi
  [ "$code" != 0 ] && return 0
  echo "'$1' succeeded, but 'not' expects a failure" >&2
  return 1
}
