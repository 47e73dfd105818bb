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
complete -c binnacle -n "__fish_binnacle_needs_command" -f -a "check" -d 'Checks a data directory or a backup file for damage, and prints digests of its objects'
complete -c binnacle -n "__fish_binnacle_needs_command" -f -a "doctor" -d 'Checks whether this release can serve a store'
complete -c binnacle -n "__fish_binnacle_needs_command" -f -a "sizes" -d 'Shows the size of each resource in a store'
complete -c binnacle -n "__fish_binnacle_needs_command" -f -a "history" -d 'Shows the versions of an object'
complete -c binnacle -n "__fish_binnacle_needs_command" -f -a "undelete" -d 'Puts objects back as they were at an earlier time'
complete -c binnacle -n "__fish_binnacle_needs_command" -f -a "migrate" -d 'Copies all data from one store to another'
complete -c binnacle -n "__fish_binnacle_needs_command" -f -a "backup" -d 'Backs up a store to a file'
complete -c binnacle -n "__fish_binnacle_needs_command" -f -a "restore" -d 'Restores a backup, an etcd snapshot or a kine database to a data directory'
complete -c binnacle -n "__fish_binnacle_needs_command" -f -a "salvage" -d 'Copies the intact objects of a damaged store to a new one'
complete -c binnacle -n "__fish_binnacle_needs_command" -f -a "cluster" -d 'Creates, lists and deletes logical clusters'
complete -c binnacle -n "__fish_binnacle_needs_command" -f -a "compare" -d 'Replays requests against two API servers and compares the answers'
complete -c binnacle -n "__fish_binnacle_needs_command" -f -a "completion" -d 'Prints the completion script for a shell'
complete -c binnacle -n "__fish_binnacle_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c binnacle -n "__fish_binnacle_using_subcommand check" -l etcd-prefix -d 'Prefix of the keys of all objects in etcd' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand check" -l etcd-cafile -d 'The certificate authorities for the serving certificates of etcd; if not set, those of the system' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand check" -l etcd-certfile -d 'The TLS client certificate for etcd' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand check" -l etcd-keyfile -d 'The TLS client key of --etcd-certfile' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand check" -s o -l output -d 'Output format' -r -f -a "text\t''
json\t''"
complete -c binnacle -n "__fish_binnacle_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand doctor" -l encryption-provider-config -d 'The EncryptionConfiguration of the server, to decrypt values; without it, encrypted values are reported as problems' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand doctor" -l etcd-prefix -d 'Prefix of the keys of all objects in etcd' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand doctor" -l etcd-cafile -d 'The certificate authorities for the serving certificates of etcd; if not set, those of the system' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand doctor" -l etcd-certfile -d 'The TLS client certificate for etcd' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand doctor" -l etcd-keyfile -d 'The TLS client key of --etcd-certfile' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand doctor" -s o -l output -d 'Output format' -r -f -a "text\t''
json\t''"
complete -c binnacle -n "__fish_binnacle_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand sizes" -l largest -d 'Number of largest objects to list' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand sizes" -l etcd-prefix -d 'Prefix of the keys of all objects in etcd' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand sizes" -l etcd-cafile -d 'The certificate authorities for the serving certificates of etcd; if not set, those of the system' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand sizes" -l etcd-certfile -d 'The TLS client certificate for etcd' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand sizes" -l etcd-keyfile -d 'The TLS client key of --etcd-certfile' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand sizes" -s o -l output -d 'Output format' -r -f -a "text\t''
json\t''"
complete -c binnacle -n "__fish_binnacle_using_subcommand sizes" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand history" -l encryption-provider-config -d 'The EncryptionConfiguration of the server, for encrypted objects' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand history" -l etcd-prefix -d 'Prefix of the keys of all objects in etcd' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand history" -l etcd-cafile -d 'The certificate authorities for the serving certificates of etcd; if not set, those of the system' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand history" -l etcd-certfile -d 'The TLS client certificate for etcd' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand history" -l etcd-keyfile -d 'The TLS client key of --etcd-certfile' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand history" -s o -l output -d 'Output format' -r -f -a "text\t''
json\t''"
complete -c binnacle -n "__fish_binnacle_using_subcommand history" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand undelete" -l at -d 'The resourceVersion, or a time such as 2026-11-27T10:00:00Z' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand undelete" -s n -l namespace -d 'Only objects in this namespace' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand undelete" -s l -l selector -d 'Only objects whose labels then matched this selector' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand undelete" -l kubeconfig -d 'The kubeconfig of the server that keeps the history; if neither this nor KUBECONFIG is set, ~/.kube/config' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand undelete" -l all -d 'All objects of the resource, or those that --namespace and --selector select'
complete -c binnacle -n "__fish_binnacle_using_subcommand undelete" -l overwrite -d 'Set objects that exist back, too'
complete -c binnacle -n "__fish_binnacle_using_subcommand undelete" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -l from -d 'The source: embedded:DIR or etcd:URL[,URL...]' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -l to -d 'The target, which must be empty or hold an unfinished migration from the same source' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -l etcd-prefix -d 'Prefix of the keys of all objects in etcd' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -l etcd-cafile -d 'The certificate authorities for the serving certificates of etcd; if not set, those of the system' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -l etcd-certfile -d 'The TLS client certificate for etcd' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -l etcd-keyfile -d 'The TLS client key of --etcd-certfile' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -l to-etcd-prefix -d 'Like --etcd-prefix, for the target' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -l to-etcd-cafile -d 'Like --etcd-cafile, for the target' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -l to-etcd-certfile -d 'Like --etcd-certfile, for the target' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -l to-etcd-keyfile -d 'Like --etcd-keyfile, for the target' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -l online -d 'Migrate while the source is in use: copy it, watch it for changes, and finish once its servers have stopped. The stop of an embedded store\'s server is detected; for etcd, type \'switch\' or send SIGUSR1 after stopping the servers'
complete -c binnacle -n "__fish_binnacle_using_subcommand migrate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand backup" -l etcd-prefix -d 'Prefix of the keys of all objects in etcd' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand backup" -l etcd-cafile -d 'The certificate authorities for the serving certificates of etcd; if not set, those of the system' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand backup" -l etcd-certfile -d 'The TLS client certificate for etcd' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand backup" -l etcd-keyfile -d 'The TLS client key of --etcd-certfile' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand backup" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand restore" -l revision -d 'Restore the objects as of this revision, which must be in the saved history; if not set, the newest' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand restore" -l bump-revision -d 'Number that is added to the newest saved revision for the first revision of the restored store' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand restore" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand salvage" -l bump-revision -d 'Number that is added to the newest known revision for the first revision of the new store' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand salvage" -s o -l output -d 'Output format' -r -f -a "text\t''
json\t''"
complete -c binnacle -n "__fish_binnacle_using_subcommand salvage" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and not __fish_seen_subcommand_from create fork list kubeconfig suspend resume backup restore delete help" -l kubeconfig -d 'The kubeconfig of the server that hosts the clusters; if neither this nor KUBECONFIG is set, ~/.kube/config' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and not __fish_seen_subcommand_from create fork list kubeconfig suspend resume backup restore delete help" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and not __fish_seen_subcommand_from create fork list kubeconfig suspend resume backup restore delete help" -f -a "create" -d 'Creates a cluster, and waits until it is ready'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and not __fish_seen_subcommand_from create fork list kubeconfig suspend resume backup restore delete help" -f -a "fork" -d 'Creates a cluster with the contents of another one'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and not __fish_seen_subcommand_from create fork list kubeconfig suspend resume backup restore delete help" -f -a "list" -d 'Lists all clusters'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and not __fish_seen_subcommand_from create fork list kubeconfig suspend resume backup restore delete help" -f -a "kubeconfig" -d 'Writes the kubeconfig of a cluster\'s administrator, and prints the path of the file'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and not __fish_seen_subcommand_from create fork list kubeconfig suspend resume backup restore delete help" -f -a "suspend" -d 'Stops a cluster, which then refuses requests'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and not __fish_seen_subcommand_from create fork list kubeconfig suspend resume backup restore delete help" -f -a "resume" -d 'Ends the suspension of a cluster'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and not __fish_seen_subcommand_from create fork list kubeconfig suspend resume backup restore delete help" -f -a "backup" -d 'Backs up a cluster to a file'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and not __fish_seen_subcommand_from create fork list kubeconfig suspend resume backup restore delete help" -f -a "restore" -d 'Creates a cluster from a backup'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and not __fish_seen_subcommand_from create fork list kubeconfig suspend resume backup restore delete help" -f -a "delete" -d 'Deletes a cluster with all its objects'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and not __fish_seen_subcommand_from create fork list kubeconfig suspend resume backup restore delete help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from create" -l idle-after -d 'Stop the cluster after this time without requests, until the next one; 0s for never [default: 10m]' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from create" -l kubeconfig -d 'The kubeconfig of the server that hosts the clusters; if neither this nor KUBECONFIG is set, ~/.kube/config' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from create" -s h -l help -d 'Print help'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from fork" -l at -d 'The resourceVersion at which the cluster is forked [default: the current one]' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from fork" -l idle-after -d 'Stop the cluster after this time without requests, until the next one; 0s for never [default: 10m]' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from fork" -l kubeconfig -d 'The kubeconfig of the server that hosts the clusters; if neither this nor KUBECONFIG is set, ~/.kube/config' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from fork" -l new-identity -d 'Give the namespace kube-system another uid, and leave out Secrets with tokens for the API'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from fork" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from list" -l kubeconfig -d 'The kubeconfig of the server that hosts the clusters; if neither this nor KUBECONFIG is set, ~/.kube/config' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from kubeconfig" -s o -l output -d 'Write the kubeconfig to this file, or with - to standard output [default: ~/.kube/logical-clusters/NAME]' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from kubeconfig" -l kubeconfig -d 'The kubeconfig of the server that hosts the clusters; if neither this nor KUBECONFIG is set, ~/.kube/config' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from kubeconfig" -s h -l help -d 'Print help'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from suspend" -l kubeconfig -d 'The kubeconfig of the server that hosts the clusters; if neither this nor KUBECONFIG is set, ~/.kube/config' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from suspend" -s h -l help -d 'Print help'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from resume" -l kubeconfig -d 'The kubeconfig of the server that hosts the clusters; if neither this nor KUBECONFIG is set, ~/.kube/config' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from resume" -s h -l help -d 'Print help'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from backup" -l kubeconfig -d 'The kubeconfig of the server that hosts the clusters; if neither this nor KUBECONFIG is set, ~/.kube/config' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from backup" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from restore" -l idle-after -d 'Stop the cluster after this time without requests, until the next one; 0s for never [default: 10m]' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from restore" -l kubeconfig -d 'The kubeconfig of the server that hosts the clusters; if neither this nor KUBECONFIG is set, ~/.kube/config' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from restore" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from delete" -l kubeconfig -d 'The kubeconfig of the server that hosts the clusters; if neither this nor KUBECONFIG is set, ~/.kube/config' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from delete" -s h -l help -d 'Print help'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from help" -f -a "create" -d 'Creates a cluster, and waits until it is ready'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from help" -f -a "fork" -d 'Creates a cluster with the contents of another one'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from help" -f -a "list" -d 'Lists all clusters'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from help" -f -a "kubeconfig" -d 'Writes the kubeconfig of a cluster\'s administrator, and prints the path of the file'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from help" -f -a "suspend" -d 'Stops a cluster, which then refuses requests'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from help" -f -a "resume" -d 'Ends the suspension of a cluster'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from help" -f -a "backup" -d 'Backs up a cluster to a file'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from help" -f -a "restore" -d 'Creates a cluster from a backup'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from help" -f -a "delete" -d 'Deletes a cluster with all its objects'
complete -c binnacle -n "__fish_binnacle_using_subcommand cluster; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -l from -d 'The audit log, HAR file or directory of recorded cases to replay' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -l kubeconfig-a -d 'The credentials and the certificate authority for this server; its URL is not used' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -l token-file-a -d 'A file with a bearer token for this server' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -l cafile-a -d 'The certificate authorities for this server; if not set, those of the system' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -l certfile-a -d 'The TLS client certificate for this server' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -l keyfile-a -d 'The TLS client key of the certificate' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -l kubeconfig-b -d 'The credentials and the certificate authority for this server; its URL is not used' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -l token-file-b -d 'A file with a bearer token for this server' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -l cafile-b -d 'The certificate authorities for this server; if not set, those of the system' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -l certfile-b -d 'The TLS client certificate for this server' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -l keyfile-b -d 'The TLS client key of the certificate' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -l accept -d 'Media type of the answers to reads; with several, each read is sent once for each of them' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -l filter -d 'Replay only recorded cases with this text in AREA/NAME' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -l variants -d 'Replay N random changes of each recorded case in place of the case' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -l seed -d 'Seed of the random changes; the same seed makes the same changes' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -l rate -d 'Maximum number of requests to each server per second; no limit by default. Recorded cases are not limited' -r
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -l html -d 'Write the report as a page' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -l json -d 'Write the report as JSON' -r -F
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -l insecure-skip-tls-verify -d 'Accept any certificate of the servers'
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -l same-store -d 'Both servers use one etcd: identifiers, versions and times must be equal, and lists are read at the version of the first answer'
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -l dry-run -d 'Send the writes of the log as well, with dryRun=All'
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -l impersonate -d 'Send each request of an audit log as the user who sent it'
complete -c binnacle -n "__fish_binnacle_using_subcommand compare" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand completion" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and not __fish_seen_subcommand_from check doctor sizes history undelete migrate backup restore salvage cluster compare completion help" -f -a "check" -d 'Checks a data directory or a backup file for damage, and prints digests of its objects'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and not __fish_seen_subcommand_from check doctor sizes history undelete migrate backup restore salvage cluster compare completion help" -f -a "doctor" -d 'Checks whether this release can serve a store'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and not __fish_seen_subcommand_from check doctor sizes history undelete migrate backup restore salvage cluster compare completion help" -f -a "sizes" -d 'Shows the size of each resource in a store'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and not __fish_seen_subcommand_from check doctor sizes history undelete migrate backup restore salvage cluster compare completion help" -f -a "history" -d 'Shows the versions of an object'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and not __fish_seen_subcommand_from check doctor sizes history undelete migrate backup restore salvage cluster compare completion help" -f -a "undelete" -d 'Puts objects back as they were at an earlier time'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and not __fish_seen_subcommand_from check doctor sizes history undelete migrate backup restore salvage cluster compare completion help" -f -a "migrate" -d 'Copies all data from one store to another'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and not __fish_seen_subcommand_from check doctor sizes history undelete migrate backup restore salvage cluster compare completion help" -f -a "backup" -d 'Backs up a store to a file'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and not __fish_seen_subcommand_from check doctor sizes history undelete migrate backup restore salvage cluster compare completion help" -f -a "restore" -d 'Restores a backup, an etcd snapshot or a kine database to a data directory'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and not __fish_seen_subcommand_from check doctor sizes history undelete migrate backup restore salvage cluster compare completion help" -f -a "salvage" -d 'Copies the intact objects of a damaged store to a new one'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and not __fish_seen_subcommand_from check doctor sizes history undelete migrate backup restore salvage cluster compare completion help" -f -a "cluster" -d 'Creates, lists and deletes logical clusters'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and not __fish_seen_subcommand_from check doctor sizes history undelete migrate backup restore salvage cluster compare completion help" -f -a "compare" -d 'Replays requests against two API servers and compares the answers'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and not __fish_seen_subcommand_from check doctor sizes history undelete migrate backup restore salvage cluster compare completion help" -f -a "completion" -d 'Prints the completion script for a shell'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and not __fish_seen_subcommand_from check doctor sizes history undelete migrate backup restore salvage cluster compare completion help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and __fish_seen_subcommand_from cluster" -f -a "create" -d 'Creates a cluster, and waits until it is ready'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and __fish_seen_subcommand_from cluster" -f -a "fork" -d 'Creates a cluster with the contents of another one'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and __fish_seen_subcommand_from cluster" -f -a "list" -d 'Lists all clusters'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and __fish_seen_subcommand_from cluster" -f -a "kubeconfig" -d 'Writes the kubeconfig of a cluster\'s administrator, and prints the path of the file'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and __fish_seen_subcommand_from cluster" -f -a "suspend" -d 'Stops a cluster, which then refuses requests'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and __fish_seen_subcommand_from cluster" -f -a "resume" -d 'Ends the suspension of a cluster'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and __fish_seen_subcommand_from cluster" -f -a "backup" -d 'Backs up a cluster to a file'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and __fish_seen_subcommand_from cluster" -f -a "restore" -d 'Creates a cluster from a backup'
complete -c binnacle -n "__fish_binnacle_using_subcommand help; and __fish_seen_subcommand_from cluster" -f -a "delete" -d 'Deletes a cluster with all its objects'
