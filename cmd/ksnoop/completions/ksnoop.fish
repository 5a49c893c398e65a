# SPDX-License-Identifier: Apache-2.0
# Completion of ksnoop for fish.

function __ksnoop_complete
    set -l words (commandline -opc)
    set -l reply ($words[1] __line fish $COLUMNS $words (commandline -ct) 2>/dev/null)
    if test "$reply[1]" = files
        __fish_complete_path (commandline -ct)
        return
    end
    printf '%s\n' $reply[2..-1]
end

complete -c ksnoop -f -k -a '(__ksnoop_complete)'
