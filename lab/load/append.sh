# append.sh FILE: appends one line, as a container's first write does.
echo "line" >>"$1"
