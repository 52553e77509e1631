#!/usr/bin/env bash
# build.sh FOLDER [PYTHON]: an AArch64 Python with what the tests need, run by an emulator as FOLDER/python.
#
# Debian's packages are unpacked, never installed, and pip's wheels are for AArch64: no privileges are needed, and
# nothing outside of FOLDER changes. It takes some 15 seconds, 150 MB over the network and 350 MB on disk. Ends
# with status 3, and says why, where a program or a package cannot be had.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
folder=$(realpath -m "$1") python=$(command -v "${2:-python3}")
case $python in /*) ;; *) python=$PWD/$python ;; esac
suite=bookworm version=3.11

lack() {
  echo "$1: AArch64 cannot be emulated here" >&2
  exit 3
}
for program in apt-get dpkg-deb; do
  command -v "$program" >/dev/null || lack "there is no $program"
done
test "$(dpkg --print-architecture)" = amd64 || lack "this is no x86-64"
keys=/usr/share/keyrings/debian-archive-keyring.gpg
test -r "$keys" || lack "there is no $keys (the package debian-archive-keyring)"

rm -rf "$folder"
mkdir -p "$folder"/apt/{lists/partial,cache/archives/partial} "$folder"/{root,host,wheels}
cd "$folder" && touch apt/status

# --- packages -------------------------------------------------------------------------------------------------
# Lists and packages of a system of its own, of two architectures, of which nothing is installed.
echo "deb [arch=amd64,arm64 signed-by=$keys] http://deb.debian.org/debian $suite main" >apt/sources.list
cat >apt/config <<END_CONFIG
Dir::State "$folder/apt";
Dir::State::lists "$folder/apt/lists";
Dir::State::status "$folder/apt/status";
Dir::Cache "$folder/apt/cache";
Dir::Etc::sourcelist "$folder/apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::Etc::preferencesparts "-";
APT::Architecture "arm64";
APT::Architectures { "arm64"; "amd64"; };
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "20";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
END_CONFIG
apt() {
  apt-get -qq -c "$folder/apt/config" "$@" >>"$folder/apt/log" 2>&1 || lack "apt-get $1 failed, see $folder/apt/log"
}
apt update -o APT::Update::Error-Mode=any
apt install -y --download-only --no-install-recommends "python$version" libstdc++6
for package in apt/cache/archives/*.deb; do
  dpkg-deb -x "$package" root
done
(cd host && apt download qemu-user-static:amd64 && dpkg-deb --fsys-tarfile ./*.deb | tar -x ./usr/bin/qemu-aarch64-static)
rm -rf host/*.deb apt/cache apt/lists

# --- wheels ---------------------------------------------------------------------------------------------------
"$python" -m pip download -qq --disable-pip-version-check --dest wheels --only-binary :all: \
  -c "$here/../../constraints.txt" \
  --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux2014_aarch64 \
  --implementation cp --python-version "$version" \
  numpy llvmlite ml_dtypes pytest pytest-timeout==2.4.0 hypothesis \
  || lack "pip download failed"
for wheel in wheels/*.whl; do
  "$python" -m zipfile -e "$wheel" "root/usr/local/lib/python$version/dist-packages"
done
rm -rf wheels
# Every interpreter has LLVM run outside of the emulator, by tests/arm/compile_outside.py.
packages="$folder/root/usr/local/lib/python$version/dist-packages"
printf '%s\nimport compile_outside\n' "$(realpath --relative-to "$packages" "$here")" >"$packages/compile_outside.pth"

# --- launcher -------------------------------------------------------------------------------------------------
# Named as the interpreter, so that processes which Python starts are emulated too. ARM_CPU picks a model.
cat >python <<END_PYTHON
#!/bin/sh
here=\$(dirname "\$(readlink -f "\$0")")
exec "\$here/host/usr/bin/qemu-aarch64-static" \${ARM_CPU:+-cpu "\$ARM_CPU"} -L "\$here/root" -0 "\$here/python" \\
  -E PYTHONHOME="\$here/root/usr" "\$here/root/usr/bin/python$version" "\$@"
END_PYTHON
chmod +x python
ARM_CPU='' ./python -c 'import llvmlite.binding, ml_dtypes, numpy, pytest' || lack "the emulated Python does not run"
