# A process of a name of its own that uses files as it is told: lines of a command, a path, and what else it needs, with tabs between.
# It answers each with the error number, or 0.
$| = 1;
$0 = shift;
my %open;
while (my $line = <STDIN>) {
    chomp $line;
    my ($command, $path, $first, $second) = split /\t/, $line;
    my $done = 1;
    if ($command eq 'close') {
        delete $open{$path};
    } elsif ($open{$path} or sysopen($open{$path}, $path, 0)) {
        my $file = $open{$path};
        if ($command eq 'read') {
            $done = sysseek($file, $first, 0) && defined sysread($file, my $bytes, 4096);
        } elsif ($command eq 'ioctl') {
            $done = ioctl($file, $first, my $structure = pack('H*', $second));
        }
    } else {
        delete $open{$path};
        $done = 0;
    }
    print $done ? 0 : $! + 0, "\n";
}
