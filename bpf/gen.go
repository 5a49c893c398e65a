// SPDX-License-Identifier: Apache-2.0

package bpf

//go:generate go tool bpf2go -cc clang -tags linux -target amd64,arm64 -cflags "-O2 -g -Wall -Werror -mcpu=v3" -type event -type frame -type stash_head -type slot_list -type slot_kind -type slot_flag -type kind -type counter -type ids -type comm_part -type section -type section_kind -type section_flag -type snapshots -type scratch -type take -type session_record -type call -type bucket -type listed_pid -type table_place -type table_shard -type candidate -type kept_stack -type table_limit -type limit -type event_flag -type owner -type record_part -type arg_limit -type list_limit -type guard_limit -type ringbuf_flag -type lost -type perf_branch_entry -type arg_bytes -type func_bit -type error_class -type call_flag -type session_kind -type log_kind -type log_bit -type log_head -type log_entry -type log_exit -type log_entry_off -type log_exit_off -type off_cpu -type notes engine engine.bpf.c -- -I.
