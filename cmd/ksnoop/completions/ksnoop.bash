# SPDX-License-Identifier: Apache-2.0
# Completion of ksnoop for bash 4.4 and later.

_ksnoop() {
	local reply
	COMPREPLY=()
	mapfile -t reply < <("$1" __line bash "${COLUMNS:-80}" "${COMP_LINE:0:COMP_POINT}" "$2" "$COMP_TYPE" 2>/dev/null)
	case ${reply[0]} in
	files) compopt -o default 2>/dev/null ;;
	open) compopt -o nospace -o nosort 2>/dev/null ;;
	*) compopt -o nosort 2>/dev/null ;;
	esac
	COMPREPLY=("${reply[@]:1}")
}
complete -F _ksnoop ksnoop
