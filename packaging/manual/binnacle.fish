# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_binnacle_global_optspecs
    string join \n h/help V/version
end

function __fish_binnacle_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_binnacle_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_binnacle_using_subcommand
    set -l cmd (__fish_binnacle_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c binnacle -n "__fish_binnacle_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_needs_command" -s V -l version -d 'Print version'
complete -c binnacle -n "__fish_binnacle_needs_command" -f -a "check" -d 'Tells whether a data directory, or a backup, is whole'
complete -c binnacle -n "__fish_binnacle_needs_command" -f -a "doctor" -d 'Tells whether this release can take over a store'
complete -c binnacle -n "__fish_binnacle_needs_command" -f -a "sizes" -d 'Tells how much room each resource takes up'
complete -c binnacle -n "__fish_binnacle_needs_command" -f -a "migrate" -d 'Moves all data from one store to another'
complete -c binnacle -n "__fish_binnacle_needs_command" -f -a "backup" -d 'Saves a store to a file'
complete -c binnacle -n "__fish_binnacle_needs_command" -f -a "restore" -d 'Makes a data directory from a saved file, of this program, etcd or kine'
complete -c binnacle -n "__fish_binnacle_needs_command" -f -a "salvage" -d 'Makes a new store of what is whole in a damaged one'
complete -c binnacle -n "__fish_binnacle_needs_command" -f -a "completion" -d 'Prints the completion script for a shell'
complete -c binnacle -n "__fish_binnacle_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c binnacle -n "__fish_binnacle_using_subcommand check" -s o -l output -d 'The form of the answer' -r -f -a "text\t''
json\t''"
complete -c binnacle -n "__fish_binnacle_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand doctor" -l encryption-provider-config -d 'The EncryptionConfiguration that the server would be given; without it encrypted values are a problem' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand doctor" -l etcd-prefix -d 'How the keys of all objects in etcd begin' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand doctor" -l etcd-cafile -d 'The authorities that etcd\'s certificates must come from; if not set, the system\'s' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand doctor" -l etcd-certfile -d 'The certificate that is shown to etcd' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand doctor" -l etcd-keyfile -d 'The key that belongs to --etcd-certfile' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand doctor" -s o -l output -d 'The form of the answer' -r -f -a "text\t''
json\t''"
complete -c binnacle -n "__fish_binnacle_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand sizes" -l largest -d 'How many of the largest objects to name' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand sizes" -l etcd-prefix -d 'How the keys of all objects in etcd begin' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand sizes" -l etcd-cafile -d 'The authorities that etcd\'s certificates must come from; if not set, the system\'s' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand sizes" -l etcd-certfile -d 'The certificate that is shown to etcd' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand sizes" -l etcd-keyfile -d 'The key that belongs to --etcd-certfile' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand sizes" -s o -l output -d 'The form of the answer' -r -f -a "text\t''
json\t''"
complete -c binnacle -n "__fish_binnacle_using_subcommand sizes" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -l from -d 'The store to read: embedded:DIR or etcd:URL[,URL...]' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -l to -d 'The store to fill; it must be empty, or an unfinished migration from the same source' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -l etcd-prefix -d 'How the keys of all objects in etcd begin' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -l etcd-cafile -d 'The authorities that etcd\'s certificates must come from; if not set, the system\'s' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -l etcd-certfile -d 'The certificate that is shown to etcd' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -l etcd-keyfile -d 'The key that belongs to --etcd-certfile' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -l to-etcd-prefix -d 'As --etcd-prefix, for a target that is another etcd than the source' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -l to-etcd-cafile -d 'As --etcd-cafile, for a target that is another etcd than the source' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -l to-etcd-certfile -d 'As --etcd-certfile, for a target that is another etcd than the source' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -l to-etcd-keyfile -d 'As --etcd-keyfile, for a target that is another etcd than the source' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -l online -d 'The source is in use: copy it, follow it, and switch when its servers have stopped. An embedded source\'s server is noticed to stop; with etcd type \'switch\' or send SIGUSR1 when they have'
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand backup" -l etcd-prefix -d 'How the keys of all objects in etcd begin' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand backup" -l etcd-cafile -d 'The authorities that etcd\'s certificates must come from; if not set, the system\'s' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand backup" -l etcd-certfile -d 'The certificate that is shown to etcd' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand backup" -l etcd-keyfile -d 'The key that belongs to --etcd-certfile' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand backup" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand restore" -l revision -d 'Restore the objects as they were at this revision, which the saved history must have; if not set, the newest' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand restore" -l bump-revision -d 'How far above the newest saved revision the restored store begins' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand restore" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand salvage" -l bump-revision -d 'How far above the newest known revision the new store begins' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand salvage" -s o -l output -d 'The form of the answer' -r -f -a "text\t''
json\t''"
complete -c binnacle -n "__fish_binnacle_using_subcommand salvage" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand completion" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and not __fish_seen_subcommand_from check doctor sizes migrate backup restore salvage completion help" -f -a "check" -d 'Tells whether a data directory, or a backup, is whole'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and not __fish_seen_subcommand_from check doctor sizes migrate backup restore salvage completion help" -f -a "doctor" -d 'Tells whether this release can take over a store'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and not __fish_seen_subcommand_from check doctor sizes migrate backup restore salvage completion help" -f -a "sizes" -d 'Tells how much room each resource takes up'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and not __fish_seen_subcommand_from check doctor sizes migrate backup restore salvage completion help" -f -a "migrate" -d 'Moves all data from one store to another'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and not __fish_seen_subcommand_from check doctor sizes migrate backup restore salvage completion help" -f -a "backup" -d 'Saves a store to a file'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and not __fish_seen_subcommand_from check doctor sizes migrate backup restore salvage completion help" -f -a "restore" -d 'Makes a data directory from a saved file, of this program, etcd or kine'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and not __fish_seen_subcommand_from check doctor sizes migrate backup restore salvage completion help" -f -a "salvage" -d 'Makes a new store of what is whole in a damaged one'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and not __fish_seen_subcommand_from check doctor sizes migrate backup restore salvage completion help" -f -a "completion" -d 'Prints the completion script for a shell'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and not __fish_seen_subcommand_from check doctor sizes migrate backup restore salvage completion help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
