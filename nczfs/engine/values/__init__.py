"""Values as callers give them: conversion, fill values, quantisation."""
