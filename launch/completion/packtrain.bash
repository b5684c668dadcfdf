# Completion of packtrain and packtrain-run in bash: `source launch/completion/packtrain.bash`.

_packtrain_folder="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

_packtrain() {
  local line="${COMP_LINE:0:COMP_POINT}" words current candidate
  # bash divides words at `=` and `:`, which keys and values contain.
  read -ra words <<<"$line"
  [[ "$line" == *" " ]] && words+=("")
  current="${words[-1]}"
  COMPREPLY=()
  while IFS= read -r candidate; do
    case "$current" in
      *=*) candidate="${candidate#*=}" ;;  # it replaces the text after the `=`
      *) [[ "$candidate" != *= ]] || compopt -o nospace ;;
    esac
    COMPREPLY+=("$candidate")
  done < <("$_packtrain_folder/candidates" "${words[@]}" 2>/dev/null)
}

complete -o bashdefault -o default -F _packtrain packtrain packtrain-run
