#compdef ksnoop
# SPDX-License-Identifier: Apache-2.0
# Completion of ksnoop for zsh.

_ksnoop() {
	local -a reply matches shown
	local how match text
	reply=("${(@f)$("${words[1]}" __line zsh "$COLUMNS" "${(@)words[1,CURRENT-1]}" "${words[CURRENT]%$SUFFIX$QISUFFIX}" 2>/dev/null)}")
	how=$reply[1]
	for match text in "${(@)reply[2,-1]}"; do
		matches+=("${match#"$QIPREFIX"}") # the quote that opens the word stays
		shown+=("$text")
	done
	case $how in
	files) _files ;;
	open) compadd -U -Q -S '' -l -V ksnoop -d shown -a matches ;; # with no suffix, the quote stays open
	*) compadd -U -Q -l -V ksnoop -d shown -a matches ;;
	esac
}

if [[ $funcstack[1] == _ksnoop ]]; then
	_ksnoop "$@" # from a file in fpath, the first time
else
	compdef _ksnoop ksnoop
fi
