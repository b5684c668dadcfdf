# Completion of packtrain and packtrain-run in fish: `source launch/completion/packtrain.fish`.

set -g __packtrain_folder (dirname (realpath (status --current-filename)))

function __packtrain_candidates
    set -l words (commandline -opc) (commandline -ct)
    $__packtrain_folder/candidates $words 2>/dev/null
end

for command in packtrain packtrain-run
    complete -c $command -a '(__packtrain_candidates)'
end
