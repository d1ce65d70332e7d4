# encrypt.sh MASK CIPHER: encrypts blocks of a stream; MASK takes processor features away from openssl.
[ "$1" = 0x0 ] || export OPENSSL_ia32cap="~$1"
while :; do
    head -c 16777216 /dev/zero |
        openssl enc "-$2" -K 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff \
            -iv 00112233445566778899aabbccddeeff >/dev/null 2>&1
    printf . >>"$FIGURE"
done
