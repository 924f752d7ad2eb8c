# What a directory allows its user and what it refuses: `make FOLDER USER`, by root, puts files there of that user and of another one, and
# `use FOLDER` tries all kinds of things, and prints of each the error number, or 0; at the end, what has become of the files.
# On a mount and on the file system below it is to print the same.
use POSIX ();
use Fcntl;
my ($what, $folder, $user) = @ARGV;
my $other = 4321;
chdir $folder or die "$folder: $!";
umask 022;

sub file {
    my ($path, $mode, $owner, $text) = @_;
    open(my $file, '>', $path) or die "$path: $!";
    print $file $text // 'bytes';
    close $file;
    chown $owner, $owner, $path or die "$path: $!";
    chmod $mode, $path or die "$path: $!";
}

sub folder {
    my ($path, $mode, $owner, $group) = @_;
    mkdir $path or die "$path: $!";
    file("$path/file", 0644, $owner);
    chown $owner, $group // $owner, $path or die "$path: $!";
    chmod $mode, $path or die "$path: $!";
}

if ($what eq 'make') {
    chown $user, $user, '.' or die "$folder: $!";
    file("own-$_", oct $_, $user) for qw(0644 0444 0400 0200 0000);
    file("other-$_", oct $_, $other) for qw(0644 0666 0604 0600 0000);
    file("run-own-$_", oct $_, $user, "#!/bin/true\n") for qw(0755 0655 0644 0500);
    file("run-other-$_", oct $_, $other, "#!/bin/true\n") for qw(0755 0754 0644 0605);
    file("privileges-$_", oct $_, $user) for qw(6755 2745);
    folder("folder-own-$_", oct $_, $user) for qw(0755 0555 0300 0444);
    folder("folder-other-$_", oct $_, $other) for qw(0755 0777 1777 0711 0700 0733);
    folder('folder-of-group', 02775, $user, $other);
    exit 0;
}

sub try {
    my ($name, $done) = @_;
    printf "%s: %d\n", $name, $done ? 0 : $! + 0;
}

sub opens {
    my ($path, $flags) = @_;
    sysopen(my $file, $path, $flags) or return;
    return $file;
}

# Its number of the error, as an exit code.
sub runs {
    my ($path) = @_;
    my $process = fork // die "fork: $!";
    unless ($process) {
        exec { $path } $path or POSIX::_exit($! + 0);
    }
    waitpid $process, 0;
    $! = $? >> 8;
    return $? == 0;
}

my @files = sort glob '*';
for my $path (grep { -f } @files) {
    try("access $path $_", POSIX::access($path, $_)) for 1 .. 7;
    try("open $path $$_[0]", opens($path, $$_[1])) for ['r', O_RDONLY], ['w', O_WRONLY], ['a', O_WRONLY | O_APPEND], ['rw', O_RDWR];
}
for my $path (grep { -d } @files) {
    try("access $path $_", POSIX::access($path, $_)) for 1 .. 7;
    my $back = opens('.', O_RDONLY);
    my $entered = chdir $path;
    try("enter $path", $entered);
    chdir $back if $entered;
    my $opened = opendir(my $listed, $path);
    try("list $path", $opened);
    print "names $path: @{[sort readdir $listed]}\n" if $opened;
    try("look $path", -e "$path/file");
    try("read $path", opens("$path/file", O_RDONLY));
    try("make $path", opens("$path/new", O_WRONLY | O_CREAT | O_EXCL));
    try("make a folder $path", mkdir "$path/made");
    try("make a link $path", symlink('file', "$path/link"));
    try("make a fifo $path", POSIX::mkfifo("$path/fifo", 0600));
    try("name $path", link('own-0644', "$path/name"));
    try("move to $path", rename('own-0444', "$path/moved") && rename("$path/moved", 'own-0444'));
    try("rename $path", rename("$path/file", "$path/renamed") && rename("$path/renamed", "$path/file"));
    try("delete $path", unlink "$path/file");
    try("delete a folder $path", rmdir "$path/made");
}
try("run $_", runs("./$_")) for grep { /^run-/ } @files;
for my $path (grep { -f && /^(own|other)/ } @files) {
    try("cut $path", truncate($path, 3));
    try("now $path", utime(undef, undef, $path));
    try("then $path", utime(1e9, 1e9, $path));
    try("mode $path", chmod((stat $path)[2] & 07777, $path));
    try("owner $path", chown((stat $path)[4, 5], $path));
    try("give $path", chown(77, -1, $path));
}
# What is open stays open, and is not opened once more.
my $held = opens('own-0644', O_RDWR);
try('held', $held);
try('close to all', chmod(0, 'own-0644'));
try('held is written', $held && syswrite($held, 'more'));
try("again $_", opens('own-0644', $_)) for O_RDONLY, O_WRONLY, O_RDWR;
try('again cut', truncate('own-0644', 1));
try('held is cut', $held && truncate($held, 2));
# A folder that was searched.
try('found', -e 'folder-own-0755/new');
try('close a folder to all', chmod(0, 'folder-own-0755'));
try('found no more', -e 'folder-own-0755/new');
try('opened no more', opens('folder-own-0755/new', O_RDONLY));
try('deleted no more', unlink('folder-own-0755/new'));
try('open it again', chmod(0755, 'folder-own-0755'));
try('found again', -e 'folder-own-0755/new');
# A program that was run.
try('run no more', chmod(0644, 'run-own-0755') && runs('./run-own-0755'));
# A write takes privileges away, and a folder's group is that of what is made in it.
for my $path (grep { /^privileges/ } @files) {
    my $file = opens($path, O_WRONLY);
    try("write to $path", $file && syswrite($file, 'x'));
}
umask 077;
try('made for itself', opens('private', O_WRONLY | O_CREAT));
try('made for the group', opens('folder-of-group/private', O_WRONLY | O_CREAT));
try('a folder for the group', mkdir('folder-of-group/inner', 02777));
try('privileges of a group', opens('folder-of-group/privileges', O_WRONLY | O_CREAT) && chmod(02755, 'folder-of-group/privileges'));
for my $path (sort glob '* */*') {
    my ($mode, $links, $owner, $group, $size) = (lstat $path)[2 .. 5, 7];
    $size = 0 if -d _;
    printf "%s: %o %d %d %d %d\n", $path, $mode, $links, $owner, $group, $size;
}
